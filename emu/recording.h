// What was recorded of a run: plain data, for whoever draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emu/busy_profile.h"
#include "emu/time.h"
#include "emu/trace_sink.h"

namespace orrery::emu {

struct Recording {
  struct Span {
    LpId lp;
    std::uint32_t track;
    TraceLevel level;
    std::uint32_t iteration;
    std::uint32_t name;  // index into names
    Time start;
    Time end;
  };
  /// A message from a track to where it became visible, and on to the wait that it ended, if any:
  /// from.issued ≤ visible ≤ wait_end.
  struct Flow {
    TraceOrigin from;
    LpId to = 0;
    std::uint64_t bytes = 0;
    Time visible = 0;  // wholly, or those bytes that the wait waited for
    bool ended_wait = false;
    std::uint32_t wait_track = 0;
    Time wait_end = 0;
  };

  std::vector<std::string> names;
  std::vector<Span> spans;        // by (lp, track, start, level)
  std::vector<Flow> flows;        // by (from, to)
  std::vector<BusyProfile> busy;  // by link class, of all links; from `from` on
  Time from = 0;

  /// Brings spans and flows into their order.
  void sort();

  // What a limit left out.
  std::uint64_t spans_left_out = 0;
  std::uint64_t flows_left_out = 0;
  Time complete_until = kNever;  // the logical process that reached its share first did so then,
  LpId first_full = 0;           // and it is this one
  std::uint64_t flows_elsewhere = 0;  // the other end is not among the recorded ones
};

}  // namespace orrery::emu
