// How a row lies in a slot so that its receiver can tell that it has arrived: UBEP's data-as-flag
// formats and those that they are compared with (arXiv 2607.06202; formats: notes on
// algorithms 3.4).
//
// A record is the row's payload, filled up to a multiple of 32 bytes, and a trailer of 32.
//
// - TFF: blocks of `block`, each with block - 32 bytes of the record and then a flag, eight words
//   that hold the call's round.
// - SP: blocks of `block`, payload throughout, the trailer at the end of the last one. The last 32
//   bytes of a block are its flag: it is there when they are not the sentinel, 32 zero bytes, which
//   memory that was never written holds by itself. A row whose own bytes look so there carries a
//   stand-in, and the trailer says which.
// - DC: the record, whose trailer holds a checksum of it all. Its bytes are whitened with the
//   round's own sequence (ubep_whitening.h), so that bytes that have not arrived (zeros, an earlier
//   row) never pass for those that should.
// - stop-and-wait: the record; a flag beside it, put when the row is acknowledged.
// - fence: the record; a flag beside it, put behind a fence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core.h"
#include "moe/algorithms/ubep_trailer.h"
#include "moe/algorithms/ubep_whitening.h"
#include "moe/layout.h"

namespace orrery::moe::ubep {

enum class FlagKind : std::uint8_t { kTff, kDc, kSp, kStopAndWait, kFence };

/// By its name as an option; the name is one of them.
FlagKind flag_kind(const std::string& name);

class Wire {
 public:
  /// `block`: the size that the format takes to be atomic, at least 64. `control`: of a row only
  /// what --payload control needs is there, which depends on the fabric's own blocks.
  Wire(FlagKind kind, std::uint32_t block, std::uint32_t payload_bytes, bool control,
       std::uint32_t fabric_block);

  FlagKind kind() const { return kind_; }
  /// Of a slot, all of which one put fills.
  std::uint32_t slot_bytes() const { return slot_bytes_; }
  std::uint32_t blocks() const { return slot_bytes_ / block_; }
  /// Whether it needs a flag of its own beside the slot.
  bool flag_beside() const { return kind_ == FlagKind::kStopAndWait || kind_ == FlagKind::kFence; }
  /// What it relies on: blocks of this size appear whole.
  std::uint32_t atomic_block_bytes() const {
    return kind_ == FlagKind::kTff || kind_ == FlagKind::kSp ? block_ : 8;
  }
  /// The bytes of a slot that --payload control carries.
  std::vector<fabric::Carried::Range> carried() const;

  // --- Sender ---
  /// Writes the record of the row at `plain` to `record`, a whole slot.
  void pack(devices::Core& core, fabric::Address record, fabric::Address plain, Trailer trailer,
            std::uint32_t round) const;
  emu::Time pack_time(const devices::Costs& costs) const;

  // --- Receiver ---
  /// What a poll looks at: `slot`, or the flag beside it.
  devices::Place place(fabric::Address slot, fabric::Address flag) const {
    return flag_beside() ? devices::Place{flag, 4} : devices::Place{slot, slot_bytes_};
  }
  /// Whether the row of this round is all there, as far as can be seen.
  bool arrived(devices::Core& core, const devices::Place& place, std::uint32_t round) const;
  /// One such look.
  emu::Time read_time(const devices::Costs& costs) const;
  const char* wants() const;
  /// The stretches of the payload in `slot` and where they go in a plain row at `row`.
  void add_pieces(fabric::Address slot, fabric::Address row,
                  std::vector<devices::Piece>& out) const;
  /// When they have been copied: makes them the payload that was sent. Gives the trailer.
  Trailer restore(devices::Core& core, fabric::Address row, fabric::Address slot,
                  std::uint32_t round) const;
  emu::Time restore_time(const devices::Costs& costs) const;
  /// Both at one go, in no time.
  Trailer unpack(devices::Core& core, fabric::Address row, fabric::Address slot,
                 std::uint32_t round) const;
  /// Bytes of a slot that its receiver clears before it may be filled again.
  std::uint32_t reset_bytes() const;

 private:
  static constexpr std::uint32_t kFlagBytes = 32;

  std::uint32_t padded() const { return static_cast<std::uint32_t>(align_up(payload_bytes_, 32)); }
  std::uint32_t data_bytes() const {  // of the record, in a block
    return kind_ == FlagKind::kTff ? block_ - kFlagBytes : block_;
  }
  // Where a byte of the payload, filled up, is in the slot; and the trailer.
  std::uint32_t at(std::uint32_t offset) const {
    return offset / data_bytes() * block_ + offset % data_bytes();
  }
  std::uint32_t trailer_at() const {
    return kind_ == FlagKind::kSp ? slot_bytes_ - kFlagBytes : at(padded());
  }
  std::uint32_t flag_at(std::uint32_t block) const { return (block + 1) * block_ - kFlagBytes; }
  std::uint32_t head_bytes() const;
  std::uint32_t stand_in_for_sentinel(devices::Core& core, fabric::Address record) const;

  FlagKind kind_;
  std::uint32_t block_;
  std::uint32_t payload_bytes_;
  bool control_;
  Whitening whitening_;  // DC
  std::uint32_t slot_bytes_;
};

}  // namespace orrery::moe::ubep
