// A recorded run as a picture of text, for teaching: for each operation, in its slowest iteration,
// a row per core over time with a letter for what the core spent its time on, capitals where the
// critical path is on that core, and what became visible in each device's memory.
#pragma once

#include <cstddef>
#include <string>

#include "moe/run.h"

namespace orrery::cli {

struct TimelineStyle {
  std::size_t width = 100;    // columns of the whole picture
  std::size_t max_rows = 40;  // cores of an operation; of more, those that matter most are shown
  bool colour = false;        // the critical path in bold
};

/// `outcome.trace` must be there and the run complete. Depends on the run and the style alone.
std::string timeline_text(const moe::RunOutcome& outcome, const TimelineStyle& style);

/// Width from the environment's COLUMNS, else from the terminal, else 100; colour on a terminal
/// that does not refuse it (NO_COLOR). What a launcher such as mpirun shows a process as its
/// terminal is none: `launched` says that there is one.
TimelineStyle style_of_stdout(bool launched);

}  // namespace orrery::cli
