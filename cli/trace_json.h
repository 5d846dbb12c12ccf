// A recorded run in the Chrome trace event format, as https://ui.perfetto.dev opens it.
//
// Processes: "critical path" (a track per operation: its slowest device's path, without gaps),
// "fabric" (a counter per link class: which share of its used links is busy), and one per device,
// with a track per core (operation, phases, what the core spent its time on) and a track "memory"
// where puts become visible. Arrows lead from a put's issue to its visibility, and on to the end of
// the wait that it ended. Times are microseconds, exact to the picosecond.
//
// Spans are pairs of B and E events. With X events a viewer rounds start and duration to
// nanoseconds each for itself, and neighbours then overlap.
#pragma once

#include <iosfwd>
#include <string>

#include "moe/run.h"

namespace orrery::cli {

/// `outcome.trace` must be there. The bytes depend on the run alone.
void write_trace_json(const moe::RunOutcome& outcome, std::ostream& out);

/// One line about what the limit left out; empty if nothing.
std::string left_out(const moe::RunTrace& trace);

}  // namespace orrery::cli
