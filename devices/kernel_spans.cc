#include "devices/kernel_spans.h"

#include <algorithm>

namespace orrery::devices {

void append_spans(std::string_view kernel, std::uint32_t iteration, emu::Time end,
                  std::uint32_t core, const Timeline& timeline, const std::vector<Phase>& phases,
                  std::vector<emu::TraceSpan>& spans) {
  const auto append = [&](emu::TraceLevel level, std::string_view name, emu::Time from,
                          emu::Time to) {
    if (from < to) spans.push_back({core, level, iteration, name, from, to});
  };
  append(emu::TraceLevel::kOperation, kernel, timeline.start, end);

  // The last phase ends with the program: what follows is idling.
  emu::Time program_end = timeline.end();
  if (!timeline.segments.empty() && timeline.segments.back().category == Category::kIdle) {
    const std::size_t before = timeline.segments.size() - 1;
    program_end = before == 0 ? timeline.start : timeline.segments[before - 1].end;
  }
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const emu::Time next = i + 1 < phases.size() ? phases[i + 1].start : program_end;
    append(emu::TraceLevel::kPhase, phases[i].name, phases[i].start, std::min(next, program_end));
  }

  emu::Time from = timeline.start;
  std::size_t phase = 0;
  for (const Segment& segment : timeline.segments) {
    for (; phase < phases.size() && phases[phase].start < segment.end; ++phase) {
      if (phases[phase].start <= from) continue;
      append(emu::TraceLevel::kActivity, name_of(segment.category), from, phases[phase].start);
      from = phases[phase].start;
    }
    append(emu::TraceLevel::kActivity, name_of(segment.category), from, segment.end);
    from = segment.end;
  }
}

}  // namespace orrery::devices
