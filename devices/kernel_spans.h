// What a core did during a kernel, as spans for a trace: the kernel, the phases that its program
// named, and within them the categories of its timeline.
#pragma once

#include <string_view>
#include <vector>

#include "devices/timeline.h"
#include "emu/trace_sink.h"

namespace orrery::devices {

/// Appends the spans of `core` in a kernel that ended at `end`. Categories are cut where a phase
/// begins, so that spans nest. `kernel` must outlive
/// `spans`.
void append_spans(std::string_view kernel, std::uint32_t iteration, emu::Time end,
                  std::uint32_t core, const Timeline& timeline, const std::vector<Phase>& phases,
                  std::vector<emu::TraceSpan>& spans);

}  // namespace orrery::devices
