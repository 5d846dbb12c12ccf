// Events of one process in key order: a 4-ary heap of 16-byte entries over a slab of event bodies.
//
// An entry holds the time and the sender; only events of one sender at one time look at the slab
// for their sequence numbers. The four children of a node share a cache line. The slab never moves
// an event and recycles slots last in, first out, so a popped event's memory is warm when the next
// one is pushed. Slab and heap lie in reserved ranges of huge pages: nothing is allocated or copied
// as they grow, and look-ups seldom miss the TLB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "emu/errors.h"
#include "emu/event.h"
#include "emu/host_range.h"

namespace orrery::emu {

class EventQueue {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  Time min_time() const { return count_ == 0 ? kNever : entries_[kRoot].time; }

  /// A slot with its key set; the caller fills in the body. Valid until the event is popped and
  /// released.
  Event& push(Time time, EventOrder order, LpId target, std::uint32_t kind) {
    const std::uint32_t slot = acquire();
    Event& event = slot_at(slot);
    event.time = time;
    event.order = order;
    event.target = target;
    event.kind = kind;
    sift_up({time, slot, sender_of(order)});
    return event;
  }
  void push_copy(const Event& event) {
    push(event.time, event.order, event.target, event.kind) = event;
  }

  /// Removes the smallest key; its event stays readable until release(). Fetches the one after it.
  Event& pop(std::uint32_t& slot) {
    slot = entries_[kRoot].slot;
    const Entry last = entries_[kRoot + --count_];
    if (count_ > 0) {
      sift_down(last);
      const auto* next = reinterpret_cast<const char*>(&slot_at(entries_[kRoot].slot));
      for (std::size_t line = 0; line < sizeof(Event); line += 64) __builtin_prefetch(next + line);
    }
    return slot_at(slot);
  }
  void release(std::uint32_t slot) { free_.push_back(slot); }

  /// The slots of at most `most` events before `horizon`, in no order.
  void find_before(Time horizon, std::size_t most, std::vector<std::uint32_t>& slots) const {
    slots.clear();
    if (min_time() >= horizon) return;
    // Breadth first: the list of indices grows behind the one that is looked at.
    slots.push_back(kRoot);
    const std::size_t end = kRoot + count_;
    for (std::size_t i = 0; i < slots.size() && slots.size() < most; ++i) {
      const std::size_t first = first_child_of(slots[i]);
      for (std::size_t child = first; child < std::min(first + 4, end); ++child) {
        if (entries_[child].time < horizon) slots.push_back(static_cast<std::uint32_t>(child));
      }
    }
    for (std::uint32_t& index : slots) index = entries_[index].slot;
  }
  const Event& at(std::uint32_t slot) const {
    return reinterpret_cast<const Event*>(slab_.data())[slot];
  }

 private:
  // The root's index: its children, and everyone's, then begin at multiples of four, i.e. at cache
  // lines.
  static constexpr std::size_t kRoot = 3;
  struct Entry {
    Time time;
    std::uint32_t slot;
    LpId sender;
  };
  static_assert(sizeof(Entry) == 16);

  bool before(const Entry& a, const Entry& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.sender != b.sender) return a.sender < b.sender;
    return slot_at(a.slot).order < slot_at(b.slot).order;
  }
  static std::size_t parent_of(std::size_t index) { return index / 4 + 2; }
  static std::size_t first_child_of(std::size_t index) { return (index - 2) * 4; }

  Event& slot_at(std::uint32_t slot) { return reinterpret_cast<Event*>(slab_.data())[slot]; }
  std::uint32_t acquire() {
    if (!free_.empty()) {
      const std::uint32_t slot = free_.back();
      free_.pop_back();
      return slot;
    }
    if (used_ == kMaxEvents) throw InvariantError("more than 2^26 events are pending");
    return used_++;
  }
  void sift_up(const Entry& entry) {
    std::size_t index = kRoot + count_++;
    while (index > kRoot) {
      const std::size_t parent = parent_of(index);
      if (!before(entry, entries_[parent])) break;
      entries_[index] = entries_[parent];
      index = parent;
    }
    entries_[index] = entry;
  }
  void sift_down(const Entry& entry) {
    std::size_t index = kRoot;
    const std::size_t end = kRoot + count_;
    for (;;) {
      const std::size_t first = first_child_of(index);
      if (first >= end) break;
      std::size_t best = first;
      const std::size_t last = first + 4 < end ? first + 4 : end;
      for (std::size_t child = first + 1; child < last; ++child) {
        if (before(entries_[child], entries_[best])) best = child;
      }
      if (!before(entries_[best], entry)) break;
      entries_[index] = entries_[best];
      index = best;
    }
    entries_[index] = entry;
  }

  // Reserved, not committed: 11 GiB and 1 GiB of address space.
  static constexpr std::uint32_t kMaxEvents = 1 << 26;
  HostRange slab_{std::uint64_t{kMaxEvents} * sizeof(Event)};
  HostRange heap_{(std::uint64_t{kMaxEvents} + 4) * sizeof(Entry)};
  Entry* const entries_ = reinterpret_cast<Entry*>(heap_.data());
  std::size_t count_ = 0;
  std::uint32_t used_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace orrery::emu
