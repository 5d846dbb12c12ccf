// An event: what the engine orders, delivers and, across processes, copies as plain bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emu/time.h"

namespace orrery::emu {

/// A logical process's number: the same on every process of a run.
using LpId = std::uint32_t;

/// Sender and its sequence number in one word, so that (time, order) is the event's key (R2). 20
/// bits of sender, 44 of sequence.
using EventOrder = std::uint64_t;
inline constexpr int kSequenceBits = 44;
constexpr EventOrder make_order(LpId sender, std::uint64_t sequence) {
  return (static_cast<EventOrder>(sender) << kSequenceBits) | sequence;
}
constexpr LpId sender_of(EventOrder order) { return static_cast<LpId>(order >> kSequenceBits); }

/// Plain data: it crosses processes by memcpy. `kind` belongs to the receiving logical process; the
/// body holds any trivially copyable struct of up to kBodyBytes.
struct Event {
  static constexpr std::size_t kBodyBytes = 152;

  Time time;
  EventOrder order;
  LpId target;
  std::uint32_t kind;
  alignas(8) std::byte body[kBodyBytes];

  template <typename T>
  T& as() {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBodyBytes && alignof(T) <= 8);
    return *reinterpret_cast<T*>(body);
  }
  template <typename T>
  const T& as() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kBodyBytes && alignof(T) <= 8);
    return *reinterpret_cast<const T*>(body);
  }
};
static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) == 176);

}  // namespace orrery::emu
