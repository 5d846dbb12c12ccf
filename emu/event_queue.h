// Events of one process in key order: a 4-ary heap of 24-byte keys over a slab of event bodies.
//
// The slab never moves an event and recycles slots last in, first out, so a popped event's memory is warm
// when the next one is pushed. Nothing is allocated once the slab has reached the run's peak.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emu/event.h"

namespace orrery::emu {

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Time min_time() const { return heap_.empty() ? kNever : heap_.front().time; }

  /// A slot with its key set; the caller fills in the body. Valid until the event is popped and released.
  Event& push(Time time, EventOrder order, LpId target, std::uint32_t kind) {
    const std::uint32_t slot = acquire();
    Event& event = slot_at(slot);
    event.time = time;
    event.order = order;
    event.target = target;
    event.kind = kind;
    heap_.push_back({time, order, slot});
    sift_up(heap_.size() - 1);
    return event;
  }
  void push_copy(const Event& event) {
    push(event.time, event.order, event.target, event.kind) = event;
  }

  /// Removes the smallest key; its event stays readable until release().
  Event& pop(std::uint32_t& slot) {
    slot = heap_.front().slot;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return slot_at(slot);
  }
  void release(std::uint32_t slot) { free_.push_back(slot); }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  struct Entry {
    Time time;
    EventOrder order;
    std::uint32_t slot;
    bool operator<(const Entry& other) const {
      return time != other.time ? time < other.time : order < other.order;
    }
  };

  Event& slot_at(std::uint32_t slot) { return chunks_[slot / kChunk][slot % kChunk]; }
  std::uint32_t acquire() {
    if (free_.empty()) grow();
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void grow() {
    const auto base = static_cast<std::uint32_t>(chunks_.size()) * kChunk;
    chunks_.push_back(std::make_unique_for_overwrite<Event[]>(kChunk));
    free_.reserve(base + kChunk);
    for (std::uint32_t i = kChunk; i-- > 0;) free_.push_back(base + i);
  }
  void sift_up(std::size_t index) {
    const Entry entry = heap_[index];
    while (index > 0) {
      const std::size_t parent = (index - 1) / 4;
      if (!(entry < heap_[parent])) break;
      heap_[index] = heap_[parent];
      index = parent;
    }
    heap_[index] = entry;
  }
  void sift_down(const Entry& entry) {
    std::size_t index = 0;
    const std::size_t count = heap_.size();
    for (;;) {
      const std::size_t first = index * 4 + 1;
      if (first >= count) break;
      std::size_t best = first;
      const std::size_t last = first + 4 < count ? first + 4 : count;
      for (std::size_t child = first + 1; child < last; ++child) {
        if (heap_[child] < heap_[best]) best = child;
      }
      if (!(heap_[best] < entry)) break;
      heap_[index] = heap_[best];
      index = best;
    }
    heap_[index] = entry;
  }

  std::vector<Entry> heap_;
  std::vector<std::unique_ptr<Event[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace orrery::emu
