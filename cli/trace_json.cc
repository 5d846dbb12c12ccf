#include "cli/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <tuple>
#include <vector>

#include "cli/trace_events.h"

namespace orrery::cli {

namespace {

using devices::CriticalPath;
using devices::PathStep;
using emu::Recording;
using emu::Time;
using emu::TraceLevel;

constexpr int kPathProcess = 1;
constexpr int kFabricProcess = 2;
constexpr std::uint32_t kFirstDevice = 1000;  // device 17 is process 1017
constexpr std::uint32_t kMemoryTrack = 2000;  // above every core's
constexpr Time kVisibleMark = 20 * emu::kNanosecond;

// --- The critical paths ---

std::string describe(const PathStep& step, const std::string& part) {
  std::string name = part;
  std::replace(name.begin(), name.end(), '_', ' ');
  if (step.source == step.rank) return fmt::format("{} on {}", name, step.rank);
  return fmt::format("{} {} → {}", name, step.source, step.rank);
}

void write_paths(const moe::RunOutcome& outcome, TraceEvents& events) {
  const moe::RunTrace& trace = *outcome.trace;
  if (outcome.paths.empty()) return;
  events.name_process(kPathProcess, "critical path", 0);
  for (std::uint32_t i = 0; i < outcome.paths.size(); ++i) {
    const CriticalPath& path = outcome.paths[i];
    const moe::Operation& operation = outcome.result.operations(static_cast<int>(i));
    events.name_track(kPathProcess, i + 1,
                      fmt::format("{} (device {}, iteration {})", operation.name(), path.rank,
                                  operation.slowest_iteration()));
    if (path.steps.empty()) continue;
    Time latency = 0;
    for (const Time part : path.parts) latency += part;
    const Time start = path.steps.back().to - latency;
    const Time first = path.steps.front().from;
    if (start < first) {
      events.begin(
          kPathProcess, i + 1, start, "path",
          fmt::format("\"earlier: only the last {} steps were kept\"", CriticalPath::kMaxSteps));
      events.end(kPathProcess, i + 1, first);
    }
    for (const PathStep& step : path.steps) {
      events.begin(kPathProcess, i + 1, step.from, "path",
                   json_text(describe(step, trace.parts[step.part])),
                   fmt::format(R"({{"device":{},"core":{}}})", step.rank, step.core));
      events.end(kPathProcess, i + 1, step.to);
    }
  }
}

// --- Link classes ---

void write_links(const moe::RunTrace& trace, TraceEvents& events) {
  bool any = false;
  for (std::size_t i = 0; i < trace.link_classes.size(); ++i) {
    const auto& [name, links] = trace.link_classes[i];
    const emu::BusyProfile& profile = trace.recording.busy[i];
    if (links == 0 || profile.buckets().empty()) continue;
    if (!any) events.name_process(kFabricProcess, "fabric", 1);
    any = true;
    const std::string quoted_name = json_text(fmt::format("{} ({} links)", name, links));
    const auto value = [&](Time time, double percent) {
      events.count(kFabricProcess, time, quoted_name, "% busy", percent);
    };
    Time last = -1;
    for (std::size_t bucket = 0; bucket < profile.buckets().size(); ++bucket) {
      const Time busy = profile.buckets()[bucket];
      if (busy == last) continue;
      last = busy;
      value(trace.recording.from + static_cast<Time>(bucket) * profile.width(),
            100.0 * static_cast<double>(busy) /
                (static_cast<double>(profile.width()) * static_cast<double>(links)));
    }
    value(trace.recording.from + static_cast<Time>(profile.buckets().size()) * profile.width(), 0);
  }
}

// --- Devices ---

// What happens at one instant of a track, in this order: an arrow that ends a wait belongs to the
// span that ends with it, one that starts here to the span that begins.
enum class PointKind { kWaitEnd, kEnd, kBegin, kIssue, kVisible, kArrival };
struct Point {
  Time time;
  PointKind kind;
  int nesting;        // inner spans end first and begin last
  std::size_t index;  // of the span or flow

  auto operator<=>(const Point&) const = default;
};

class Devices {
 public:
  Devices(const moe::RunTrace& trace, TraceEvents& events)
      : recording_(trace.recording), events_(events) {
    for (const std::string& name : recording_.names) {
      std::string words = name;
      std::replace(words.begin(), words.end(), '_', ' ');
      names_.push_back(json_text(words));
    }
    for (std::size_t i = 0; i < recording_.flows.size(); ++i) {
      const Recording::Flow& flow = recording_.flows[i];
      arrivals_[flow.to].push_back(i);
      points_[{flow.from.lp, flow.from.track}].push_back(
          {flow.from.issued, PointKind::kIssue, 0, i});
      if (flow.ended_wait) {
        points_[{flow.to, flow.wait_track}].push_back({flow.wait_end, PointKind::kWaitEnd, 0, i});
      }
    }
  }

  void write() {
    const auto& spans = recording_.spans;
    for (std::size_t i = 0; i < spans.size();) {
      const emu::LpId device = spans[i].lp;
      const std::uint32_t process = kFirstDevice + device;
      events_.name_process(process, fmt::format("device {}", device), 2 + device);
      write_memory(device);
      while (i < spans.size() && spans[i].lp == device) {
        const std::uint32_t core = spans[i].track;
        events_.name_track(process, core + 1, fmt::format("core {}", core));
        std::vector<Point>& points = points_[{device, core}];
        for (; i < spans.size() && spans[i].lp == device && spans[i].track == core; ++i) {
          const int level = static_cast<int>(spans[i].level);
          points.push_back({spans[i].start, PointKind::kBegin, level, i});
          points.push_back({spans[i].end, PointKind::kEnd, -level, i});
        }
        write_track(process, core + 1, points);
        points = {};
      }
    }
  }

 private:
  void write_track(std::uint32_t process, std::uint32_t track, std::vector<Point>& points) {
    static constexpr const char* kCategories[] = {"operation", "phase", "activity"};
    std::sort(points.begin(), points.end());
    for (const Point& point : points) {
      switch (point.kind) {
        case PointKind::kBegin: {
          const Recording::Span& span = recording_.spans[point.index];
          events_.begin(process, track, point.time, kCategories[static_cast<int>(span.level)],
                        names_[span.name],
                        span.level == TraceLevel::kOperation
                            ? fmt::format(R"({{"iteration":{}}})", span.iteration)
                            : "");
          break;
        }
        case PointKind::kEnd:
          events_.end(process, track, point.time);
          break;
        case PointKind::kIssue:
          events_.flow('s', process, track, point.time, point.index);
          break;
        case PointKind::kVisible:
          events_.flow('t', process, track, point.time, point.index);
          break;
        case PointKind::kArrival:
        case PointKind::kWaitEnd:
          events_.flow('f', process, track, point.time, point.index);
          break;
      }
    }
  }

  // A mark for each instant at which puts became visible, with the arrows that go through it.
  void write_memory(emu::LpId device) {
    const auto found = arrivals_.find(device);
    if (found == arrivals_.end()) return;
    const std::uint32_t process = kFirstDevice + device;
    events_.name_track(process, kMemoryTrack, "memory");
    std::vector<std::size_t>& flows = found->second;
    const auto visible = [this](std::size_t i) { return recording_.flows[i].visible; };
    std::sort(flows.begin(), flows.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(visible(a), a) < std::tuple(visible(b), b);
    });
    for (std::size_t i = 0; i < flows.size();) {
      const Time time = visible(flows[i]);
      std::size_t next = i;
      std::uint64_t bytes = 0;
      for (; next < flows.size() && visible(flows[next]) == time; ++next) {
        bytes += recording_.flows[flows[next]].bytes;
      }
      const Recording::Flow& first = recording_.flows[flows[i]];
      const std::string name = next - i == 1 ? fmt::format("{} bytes from device {} core {}", bytes,
                                                           first.from.lp, first.from.track)
                                             : fmt::format("{} puts, {} bytes", next - i, bytes);
      events_.begin(process, kMemoryTrack, time, "visible", json_text(name));
      for (; i < next; ++i) {
        const bool goes_on = recording_.flows[flows[i]].ended_wait;
        events_.flow(goes_on ? 't' : 'f', process, kMemoryTrack, time, flows[i]);
      }
      const Time end = time + kVisibleMark;
      events_.end(process, kMemoryTrack,
                  next < flows.size() ? std::min(end, visible(flows[next])) : end);
    }
    flows.clear();
  }

  const Recording& recording_;
  TraceEvents& events_;
  std::vector<std::string> names_;  // quoted
  std::map<emu::LpId, std::vector<std::size_t>> arrivals_;
  std::map<std::pair<emu::LpId, std::uint32_t>, std::vector<Point>> points_;
};

}  // namespace

std::string left_out(const moe::RunTrace& trace) {
  const Recording& recording = trace.recording;
  const std::uint64_t events = recording.spans_left_out * emu::Recorder::kEventsPerSpan +
                               recording.flows_left_out * emu::Recorder::kEventsPerMessage;
  if (events == 0) return {};
  return fmt::format(
      "{} events are left out: each device may have {} (--trace-events), and device {} was full at "
      "{} us; fewer --trace-devices, a time range or a higher limit show more",
      events, trace.share, recording.first_full, microseconds(recording.complete_until));
}

void write_trace_json(const moe::RunOutcome& outcome, std::ostream& out) {
  const moe::RunTrace& trace = *outcome.trace;
  const Recording& recording = trace.recording;
  const moe::Result& result = outcome.result;
  out << R"({"displayTimeUnit":"ns",)"
      << "\n"
      << R"("otherData":)";
  // Viewers show these as text.
  nlohmann::ordered_json other = {
      {"program", "orrery"},
      {"topology", result.topology()},
      {"workload", result.workload()},
      {"algorithm", result.algorithm()},
      {"devices", std::to_string(result.devices())},
      {"tokens", std::to_string(result.tokens())},
      {"iterations", std::to_string(result.iterations())},
      {"seed", std::to_string(result.seed())},
      {"digest", result.digest()},
      {"spans_left_out", std::to_string(recording.spans_left_out)},
      {"puts_left_out", std::to_string(recording.flows_left_out)},
      {"puts_from_or_to_devices_not_traced", std::to_string(recording.flows_elsewhere)}};
  if (const std::string what = left_out(trace); !what.empty()) other["left_out"] = what;
  out << other.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << ",\n"
      << R"("traceEvents":[)"
      << "\n";
  {
    TraceEvents events(out);
    write_paths(outcome, events);
    write_links(trace, events);
    Devices(trace, events).write();
  }
  out << "\n]}\n";
}

}  // namespace orrery::cli
