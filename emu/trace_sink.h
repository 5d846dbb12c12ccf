// Where a run's history may go, event by event; a trace writer implements it. Without one nothing
// is recorded.
#pragma once

#include <cstdint>
#include <string_view>

#include "emu/event.h"
#include "emu/time.h"

namespace orrery::emu {

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// A stretch of a logical process's track (a device's core): what it did from `start` to `end`.
  /// Spans of a track come in order of time and do not overlap; `kernel` is the operation they
  /// belong to.
  virtual void on_span(LpId lp, std::uint32_t track, std::string_view kernel, std::string_view what,
                       Time start, Time end) = 0;
  /// Bytes that left a track at `issued` became wholly visible at another logical process at
  /// `visible`.
  virtual void on_flow(LpId from, std::uint32_t from_track, Time issued, LpId to, Time visible,
                       std::uint64_t bytes) = 0;
};

}  // namespace orrery::emu
