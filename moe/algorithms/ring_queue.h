// Ring queues of rows between devices, with credits. A queue lies at its receiver. `tail` there
// counts the rows that its sender has put, `head` at the sender those that its receiver has taken;
// a slot is the count modulo the queue's size.
//
//   sender                                           receiver
//   if (ring.has_room(core)) {                       if (ring.filled(core) > 0) {
//     co_await ring.wait_room(core);                   co_await ring.wait_filled(core, n);
//     co_await core.put(ring.peer(), pieces…);         … rows at ring.row(0) to ring.row(n - 1)
//     (order the puts before what follows)             ring.take(n);
//     co_await ring.publish(core, n);                  co_await ring.credit(core);
//   }                                                }
//
// Counts go on from call to call, in 32 bits: fewer than 2^32 rows of a ring in a run. They are
// added to, not stored: on a fabric that orders nothing an old value could take the place of a new
// one. Credits add up, whichever call they are of; who clears the counts sees to it that none is
// still under way: by a barrier of devices behind their puts, or a quiet().
#pragma once

#include <algorithm>
#include <cstdint>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/layout.h"

namespace orrery::moe {

struct RingSize {
  std::uint32_t tokens;
  std::uint32_t chunk;  // at most `tokens`: a sender waits for room for so many at once
};

/// All queues of one kind: those that end at a device, and its ends of those that begin there.
class RingFamily {
 public:
  /// Per channel `rings` queues of `size` end at each device and as many begin there, with rows of
  /// `row_stride` bytes.
  RingFamily(Layout& layout, std::uint32_t channels, std::uint32_t rings, RingSize size,
             std::uint64_t row_stride)
      : rings_(rings), size_(size), stride_(row_stride) {
    const std::uint64_t all = std::uint64_t{channels} * rings;
    rows_ = layout.rows(std::max<std::uint64_t>(all, 1) * size.tokens, row_stride);
    words_ = layout.flat(std::max<std::uint64_t>(all, 1) * kWords * 8);
  }

  RingSize size() const { return size_; }
  std::uint32_t rings() const { return rings_; }
  fabric::Address row(std::uint32_t channel, std::uint32_t ring, std::uint32_t position) const {
    const std::uint64_t first = (std::uint64_t{channel} * rings_ + ring) * size_.tokens;
    return rows_ + (first + position % size_.tokens) * stride_;
  }
  /// Of queues that end here, by number among those: rows put by the sender, rows taken so far.
  fabric::Address tail(std::uint32_t channel, std::uint32_t ring) const {
    return word(channel, ring, 0);
  }
  fabric::Address taken(std::uint32_t channel, std::uint32_t ring) const {
    return word(channel, ring, 1);
  }
  /// Of queues that begin here, by number among those: rows taken by the receiver, rows put.
  fabric::Address head(std::uint32_t channel, std::uint32_t ring) const {
    return word(channel, ring, 2);
  }
  fabric::Address sent(std::uint32_t channel, std::uint32_t ring) const {
    return word(channel, ring, 3);
  }
  static constexpr std::uint32_t kWords = 4;  // 64 bits each

 private:
  fabric::Address word(std::uint32_t channel, std::uint32_t ring, std::uint32_t which) const {
    return words_ + ((std::uint64_t{channel} * rings_ + ring) * kWords + which) * 8;
  }

  std::uint32_t rings_;
  RingSize size_;
  std::uint64_t stride_;
  fabric::Address rows_;
  fabric::Address words_;
};

/// `words` 32-bit words of at least `at_least` each, which device `peer` writes.
struct Watch {
  fabric::Address address;
  std::uint32_t words;
  std::uint32_t at_least;
  std::uint32_t peer;
  std::uint32_t channel;
  const char* what;

  /// Looks without waiting; takes no time.
  bool is_ready(devices::Core& core) const;
  emu::Task wait(devices::Core& core) const;
  std::string writer() const;
};

/// The sender's end of a queue.
class SendRing {
 public:
  /// The `here`-th queue that begins at this device; it ends at `peer` as the `there`-th there.
  SendRing(devices::Core& core, const RingFamily& family, std::uint32_t channel, std::uint32_t here,
           std::uint32_t peer, std::uint32_t there)
      : family_(&family),
        channel_(channel),
        here_(here),
        peer_(peer),
        there_(there),
        sent_(core.load<std::uint32_t>(family.sent(channel, here))) {}

  std::uint32_t peer() const { return peer_; }
  std::uint32_t chunk() const { return family_->size().chunk; }
  /// Room for a chunk, and what would make it.
  bool has_room(devices::Core& core) const;
  Watch room() const;
  emu::Task wait_room(devices::Core& core) const;
  /// Where the `n`-th of the rows to put next goes, at the peer.
  fabric::Address row(std::uint32_t n) const { return family_->row(channel_, there_, sent_ + n); }
  /// So many rows are put.
  void advance(std::uint32_t rows) { sent_ += rows; }
  /// Tells the receiver. Nothing here orders that behind the rows.
  emu::Task publish(devices::Core& core, std::uint32_t rows) const;
  /// Keeps the count for the next call.
  void save(devices::Core& core) const { core.write(family_->sent(channel_, here_), sent_); }

 private:
  const RingFamily* family_;
  std::uint32_t channel_;
  std::uint32_t here_;
  std::uint32_t peer_;
  std::uint32_t there_;
  std::uint32_t sent_;
};

/// The receiver's end of a queue.
class ReceiveRing {
 public:
  /// The `here`-th queue that ends at this device; it begins at `peer` as the `there`-th there.
  ReceiveRing(devices::Core& core, const RingFamily& family, std::uint32_t channel,
              std::uint32_t here, std::uint32_t peer, std::uint32_t there)
      : family_(&family),
        channel_(channel),
        here_(here),
        peer_(peer),
        there_(there),
        taken_(core.load<std::uint32_t>(family.taken(channel, here))),
        told_(taken_) {}

  std::uint32_t peer() const { return peer_; }
  std::uint32_t chunk() const { return family_->size().chunk; }
  /// Rows that are there and not taken, and what would make it more than `rows`.
  std::uint32_t filled(devices::Core& core) const;
  Watch more_than(std::uint32_t rows) const;
  emu::Task wait_filled(devices::Core& core, std::uint32_t rows) const;
  /// The `n`-th of them.
  fabric::Address row(std::uint32_t n) const { return family_->row(channel_, here_, taken_ + n); }
  void take(std::uint32_t rows) { taken_ += rows; }
  /// Taken and not told of.
  std::uint32_t owed() const { return taken_ - told_; }
  /// Tells the sender, behind what it was told before, if at least `least` rows are owed, or any
  /// and it is the last time. A sender that puts whole chunks save at last may be told of so many
  /// at once.
  emu::Task credit(devices::Core& core, bool last = false, std::uint32_t least = 1);
  void save(devices::Core& core) const { core.write(family_->taken(channel_, here_), taken_); }

 private:
  const RingFamily* family_;
  std::uint32_t channel_;
  std::uint32_t here_;
  std::uint32_t peer_;
  std::uint32_t there_;
  std::uint32_t taken_;
  std::uint32_t told_;
  devices::PutHandle last_;  // that told of some
};

}  // namespace orrery::moe
