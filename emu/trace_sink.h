// Where a run's history may go, event by event; a recorder implements it. Without one nothing is
// recorded. The calls for one logical process come one at a time and in the order of its events;
// those for different ones may come from different threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "emu/event.h"
#include "emu/time.h"

namespace orrery::emu {

/// Spans of a track nest by level: an operation encloses its phases, a phase its activities.
enum class TraceLevel : std::uint8_t { kOperation, kPhase, kActivity };

/// A stretch of a track (a device's core), start < end. Spans of one level do not overlap.
struct TraceSpan {
  std::uint32_t track;
  TraceLevel level;
  std::uint32_t iteration;  // of the operation
  std::string_view name;
  Time start;
  Time end;
};

/// Which message it is: where it left and when, and its number, so that no two to one destination
/// are the same.
struct TraceOrigin {
  LpId lp = 0;
  std::uint32_t track = 0;
  std::uint32_t sequence = 0;
  Time issued = 0;

  bool operator==(const TraceOrigin&) const = default;
  auto operator<=>(const TraceOrigin&) const = default;
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// What the tracks of `lp` did in an operation that has ended. The text is copied.
  virtual void on_spans(LpId lp, std::span<const TraceSpan> spans) = 0;
  /// All bytes of a message are visible at `lp` now.
  virtual void on_message(LpId lp, const TraceOrigin& origin, std::uint64_t bytes,
                          Time visible) = 0;
  /// A wait of `track` ended at `end`, because bytes of that message had become visible at
  /// `visible`.
  virtual void on_wait_end(LpId lp, std::uint32_t track, const TraceOrigin& origin, Time visible,
                           Time end) = 0;
  /// One of the links that `lp` sends into, of class `link_class`, is busy in [start, end).
  virtual void on_busy(LpId lp, std::uint32_t link_class, Time start, Time end) = 0;
};

}  // namespace orrery::emu
