// Device memory of trtllm-onesided: what peers write, twice, because nothing else keeps a dispatch
// from the one before; what they read; counters and flags.
#pragma once

#include <cstdint>

#include "moe/layout.h"

namespace orrery::moe {

class TrtllmOneSidedBuffers {
 public:
  struct Sizes {
    std::uint32_t devices;
    std::uint32_t tokens;  // most of a device
    std::uint32_t top_k;
    std::uint32_t cores;
    std::uint32_t resident;  // tokens that a core works on at once
    std::uint64_t stride;    // of rows
    std::uint64_t taken_bytes;
  };

  /// `rows(count)`: a region of so many rows of the layer's messages.
  template <typename Rows>
  TrtllmOneSidedBuffers(Layout& layout, const Sizes& sizes, Rows&& rows) : sizes_(sizes) {
    const std::uint64_t slots = std::uint64_t{sizes.devices} * sizes.tokens;
    staged_ = rows(sizes.tokens);
    received_ = rows(2 * slots);
    outputs_ = rows(slots);
    fetched_ = rows(std::uint64_t{sizes.cores} * sizes.resident * 2 * sizes.top_k);
    taken_ = layout.flat(slots * sizes.taken_bytes);
    places_ = layout.flat(std::uint64_t{sizes.tokens} * sizes.top_k * 4);
    words_ = layout.flat((kFlags * sizes.devices + 3) * 4);
    words_of_halves_ = layout.flat(2 * kHalves * sizes.devices * 4);
  }

  // --- Rows, by (source, slot) ---
  fabric::Address staged(std::uint32_t token) const { return staged_ + token * sizes_.stride; }
  fabric::Address received(std::uint32_t half, std::uint32_t source, std::uint32_t slot) const {
    return received_ + half * half_rows() + slot_of(source, slot) * sizes_.stride;
  }
  /// What this device's experts made of a message, all of them: peers read it.
  fabric::Address outputs(std::uint32_t source, std::uint32_t slot) const {
    return outputs_ + slot_of(source, slot) * sizes_.stride;
  }
  fabric::Address taken(std::uint32_t source, std::uint32_t slot) const {
    return taken_ + slot_of(source, slot) * sizes_.taken_bytes;
  }
  /// Rows of the n-th token that a core works on: those of peers, then sums on their way to one.
  fabric::Address fetched(std::uint32_t core, std::uint32_t n, std::uint32_t row) const {
    return fetched_ +
           ((std::uint64_t{core} * sizes_.resident + n) * 2 * sizes_.top_k + row) * sizes_.stride;
  }

  // --- Words of 4 bytes ---
  /// By a token's choice, the first for a device: the slot that its message has there.
  fabric::Address place(std::uint32_t token, std::uint32_t k) const {
    return places_ + (std::uint64_t{token} * sizes_.top_k + k) * 4;
  }
  /// Slots of a peer that are taken; tokens that have been sent.
  fabric::Address send_count(std::uint32_t peer) const { return word(0, peer); }
  fabric::Address tokens_sent() const { return word(2, 0); }
  /// The number of the call, of either operation; that of the latest dispatch.
  fabric::Address round() const { return tokens_sent() + 4; }
  fabric::Address dispatched() const { return tokens_sent() + 8; }
  /// Written by a source: its outputs may be read.
  fabric::Address ready(std::uint32_t source) const { return word(1, source); }
  /// Written by a source: messages that it has sent, and that they are all there.
  fabric::Address messages(std::uint32_t half, std::uint32_t source) const {
    return words_of_halves_ + ((half * kHalves + 0) * sizes_.devices + source) * 4;
  }
  fabric::Address complete(std::uint32_t half, std::uint32_t source) const {
    return words_of_halves_ + ((half * kHalves + 1) * sizes_.devices + source) * 4;
  }

 private:
  static constexpr std::uint64_t kFlags = 2;   // words by device: send counts, ready flags
  static constexpr std::uint64_t kHalves = 2;  // counts, complete flags: of each half

  std::uint64_t slot_of(std::uint32_t source, std::uint32_t slot) const {
    return std::uint64_t{source} * sizes_.tokens + slot;
  }
  std::uint64_t half_rows() const {
    return std::uint64_t{sizes_.devices} * sizes_.tokens * sizes_.stride;
  }
  fabric::Address word(std::uint64_t kind, std::uint32_t device) const {
    return words_ + (kind * sizes_.devices + device) * 4;
  }

  Sizes sizes_;
  fabric::Address staged_;
  fabric::Address received_;
  fabric::Address outputs_;
  fabric::Address fetched_;
  fabric::Address taken_;
  fabric::Address places_;
  fabric::Address words_;
  fabric::Address words_of_halves_;
};

}  // namespace orrery::moe
