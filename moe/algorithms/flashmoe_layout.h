// The device memory of flashmoe: every offset in one place, and the words that its parts pass each
// other. All words are 8 bytes and carry the round, so that none is ever cleared.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"

namespace orrery::moe::flashmoe {

/// A signal's value, which is the packet's metadata (FlashMoE's SignalPayload).
struct Announcement {
  std::uint16_t round;
  std::uint16_t blocks;  // of rows
  std::uint32_t rows;
};
static_assert(sizeof(Announcement) == 8);

/// What cores of a device tell each other: a doorbell, a completion, an entry of a queue.
struct Note {
  enum Kind : std::uint32_t {
    // Subscriber to scheduler and senders.
    kPacket,      // unit's packet has come, with `block` blocks of rows
    kPacketsEnd,  // all of this subscriber's have
    kReturned,    // block of expert `unit` is back
    kEnd,         // all that this subscriber waits for is
    // Scheduler to processor.
    kUp,       // tile of gate and up projection
    kDown,     // tile of down projection
    kCombine,  // add a block of expert `unit`
    kFlush,    // signal what was returned
    kStop,
    // Processor to scheduler.
    kDone,
    kTileDone,
    kUpDone,  // and it was the last one of its block and projection
    // Processor to sender.
    kReady,     // parcel `unit` is staged
    kFinished,  // block of unit is staged
  };
  std::uint16_t round;
  std::uint16_t block;
  std::uint32_t kind : 4;
  std::uint32_t cold : 1;     // of a tile: its weights are read for the first time
  std::uint32_t column : 10;  // or, of a task that is done: the processor
  std::uint32_t unit : 17;
};
static_assert(sizeof(Note) == 8);
inline constexpr std::uint32_t kMostUnits = 1u << 17;
inline constexpr std::uint32_t kMostColumns = 1u << 10;
inline constexpr std::uint32_t kMostBlocks = (1u << 16) - 1;

struct Sizes {
  std::uint32_t devices;
  std::uint32_t experts;
  std::uint32_t most_local;   // experts of a device, at least 1
  std::uint32_t list_rows;    // most rows of one device for one expert
  std::uint32_t list_blocks;  // and blocks
  std::uint32_t entries;      // most choices of a device's tokens
  std::uint32_t processors;
  std::uint32_t senders;
  std::uint32_t columns;  // tiles of both projections over one block
  std::uint64_t row_stride;
};

/// A *unit* is what one device sends to one local expert of another, by (local expert, source). The
/// heap has two sets, for even and odd rounds: a device hears from all others in every round, so
/// none is more than one ahead.
class FlashmoeLayout {
 public:
  FlashmoeLayout(Layout& layout, const Sizes& sizes) : sizes_(sizes) {
    const std::uint64_t blocks = std::uint64_t{units()} * sizes.list_blocks;
    const std::uint64_t returned = std::uint64_t{sizes.experts} * sizes.list_blocks;
    // Most notes of any kind that one inbox gets in a round.
    capacity_ = blocks * (sizes.columns + 2) + 2 * returned + units() + sizes.experts +
                sizes.devices + 4ull * sizes.processors + 64;
    dispatched_ = layout.rows(2ull * units() * sizes.list_rows, sizes.row_stride);
    returned_ = layout.rows(std::uint64_t{sizes.experts} * sizes.list_rows, sizes.row_stride);
    staging_ = layout.rows(sizes.entries, sizes.row_stride);
    outputs_ = layout.rows(std::uint64_t{units()} * sizes.list_rows, sizes.row_stride);
    packet_flags_ = layout.flat(2ull * units() * kWord);
    return_flags_ = layout.flat(returned * kWord);
    lists_ = layout.flat(std::uint64_t{sizes.experts} * (sizes.list_rows + 1) * 4);
    tiles_ = layout.flat(blocks * 4);
    rendezvous_ = layout.flat(64);
    tails_ = layout.flat((1ull + sizes.senders) * 64);
    inboxes_ = layout.flat((1ull + sizes.senders) * capacity_ * kWord);
    doorbells_ = layout.flat(sizes.processors * capacity_ * kWord);
  }

  std::uint32_t units() const { return sizes_.devices * sizes_.most_local; }
  std::uint32_t unit(std::uint32_t local, std::uint32_t source) const {
    return local * sizes_.devices + source;
  }
  std::uint32_t local_of(std::uint32_t unit) const { return unit / sizes_.devices; }
  std::uint32_t source_of(std::uint32_t unit) const { return unit % sizes_.devices; }

  // --- The symmetric heap: peers write here ---
  fabric::Address dispatched(std::uint32_t set, std::uint32_t unit, std::uint32_t row) const {
    return dispatched_ +
           ((std::uint64_t{set} * units() + unit) * sizes_.list_rows + row) * sizes_.row_stride;
  }
  fabric::Address returned(std::uint32_t expert, std::uint32_t row) const {
    return returned_ + (std::uint64_t{expert} * sizes_.list_rows + row) * sizes_.row_stride;
  }
  fabric::Address packet_flag(std::uint32_t set, std::uint32_t unit) const {
    return packet_flags_ + (std::uint64_t{set} * units() + unit) * kWord;
  }
  fabric::Address return_flag(std::uint32_t expert, std::uint32_t block) const {
    return return_flags_ + (std::uint64_t{expert} * sizes_.list_blocks + block) * kWord;
  }

  // --- The device's own ---
  /// A token's k-th choice on its way out.
  fabric::Address staged(std::uint32_t entry) const { return staging_ + entry * sizes_.row_stride; }
  /// An output on its way back.
  fabric::Address output(std::uint32_t unit, std::uint32_t row) const {
    return outputs_ + (std::uint64_t{unit} * sizes_.list_rows + row) * sizes_.row_stride;
  }
  /// Rows that this device has for an expert, and the entry of each.
  fabric::Address list_rows(std::uint32_t expert) const {
    return lists_ + std::uint64_t{expert} * (sizes_.list_rows + 1) * 4;
  }
  fabric::Address list_entry(std::uint32_t expert, std::uint32_t row) const {
    return list_rows(expert) + 4 + row * 4ull;
  }
  /// Tiles of a block that are done.
  fabric::Address tiles_done(std::uint32_t unit, std::uint32_t block) const {
    return tiles_ + (std::uint64_t{unit} * sizes_.list_blocks + block) * 4;
  }
  /// Processors that have issued all puts of a dispatch, over all rounds.
  fabric::Address rendezvous() const { return rendezvous_; }
  /// Inbox 0 is the scheduler's, the others the senders'. Writers take the next slot by an atomic.
  fabric::Address tail(std::uint32_t inbox) const { return tails_ + inbox * 64ull; }
  fabric::Address note(std::uint32_t inbox, std::uint32_t slot) const {
    return inboxes_ + (inbox * capacity_ + slot) * kWord;
  }
  fabric::Address doorbell(std::uint32_t processor, std::uint32_t slot) const {
    return doorbells_ + (processor * capacity_ + slot) * kWord;
  }

 private:
  static constexpr std::uint64_t kWord = 8;

  Sizes sizes_;
  std::uint64_t capacity_;
  fabric::Address dispatched_;
  fabric::Address returned_;
  fabric::Address staging_;
  fabric::Address outputs_;
  fabric::Address packet_flags_;
  fabric::Address return_flags_;
  fabric::Address lists_;
  fabric::Address tiles_;
  fabric::Address rendezvous_;
  fabric::Address tails_;
  fabric::Address inboxes_;
  fabric::Address doorbells_;
};

}  // namespace orrery::moe::flashmoe
