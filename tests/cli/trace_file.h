// A trace as a viewer reads it: the events of each track in order, arrows put together again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace orrery::cli {

using Json = nlohmann::json;

/// Microseconds of a trace back to picoseconds.
inline std::int64_t picoseconds(const Json& us) { return std::llround(us.get<double>() * 1e6); }

struct TraceFile {
  using Track = std::pair<int, int>;  // process, thread
  struct Span {
    std::string name;
    std::string category;
    std::size_t depth;  // spans around it
    std::int64_t start;
    std::int64_t end;
    Json args;
  };
  struct FlowEnd {
    Track track;
    std::int64_t time;
    std::string within;  // the innermost span there
  };
  struct Flow {
    std::vector<FlowEnd> starts;
    std::vector<FlowEnd> steps;
    std::vector<FlowEnd> ends;
  };

  Json other;
  std::map<int, std::string> processes;
  std::map<Track, std::string> tracks;
  std::map<Track, std::vector<Span>> spans;  // by start, outer ones first
  std::map<int, Flow> flows;
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> counters;
  std::size_t device_events = 0;        // of device processes: spans and arrows
  std::vector<std::string> complaints;  // what is not as a trace must be

  int process(const std::string& name) const {
    for (const auto& [number, each] : processes) {
      if (each == name) return number;
    }
    return -1;
  }
  static bool is_device(int process) { return process >= 1000; }
};

inline TraceFile read_trace(const std::string& path) {
  TraceFile trace;
  const Json file = Json::parse(std::ifstream(path), nullptr, false);
  const auto complain = [&trace](const std::string& what) {
    if (trace.complaints.size() < 10) trace.complaints.push_back(what);
  };
  if (!file.is_object()) {
    complain("no JSON object");
    return trace;
  }
  if (file.at("displayTimeUnit") != "ns") complain("displayTimeUnit");
  trace.other = file.at("otherData");
  std::map<TraceFile::Track, std::vector<std::size_t>> open;
  std::map<TraceFile::Track, std::int64_t> now;
  for (const Json& event : file.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>();
    const int process = event.at("pid");
    const TraceFile::Track track{process, event.value("tid", 0)};
    if (phase == "M") {
      const auto what = event.at("name").get<std::string>();
      if (what == "process_name") trace.processes[process] = event["args"]["name"];
      if (what == "thread_name") trace.tracks[track] = event["args"]["name"];
      continue;
    }
    const std::int64_t time = picoseconds(event.at("ts"));
    if (phase == "C") {
      trace.counters[event.at("name")].emplace_back(time, event["args"].begin()->get<double>());
      continue;
    }
    trace.device_events += TraceFile::is_device(process);
    if (now.contains(track) && time < now[track]) complain("back in time: " + event.dump());
    now[track] = time;
    std::vector<TraceFile::Span>& spans = trace.spans[track];
    std::vector<std::size_t>& stack = open[track];
    if (phase == "B") {
      stack.push_back(spans.size());
      spans.push_back({event.at("name"), event.at("cat"), stack.size() - 1, time, -1,
                       event.value("args", Json::object())});
    } else if (phase == "E") {
      if (stack.empty()) {
        complain("nothing to end: " + event.dump());
        continue;
      }
      spans[stack.back()].end = time;
      stack.pop_back();
    } else {
      if (phase == "f" && event.value("bp", "") != "e") complain("no bp: " + event.dump());
      TraceFile::Flow& flow = trace.flows[event.at("id")];
      auto& ends = phase == "s" ? flow.starts : phase == "t" ? flow.steps : flow.ends;
      if (stack.empty()) complain("an arrow at no span: " + event.dump());
      ends.push_back({track, time, stack.empty() ? "" : spans[stack.back()].name});
    }
  }
  for (const auto& [track, stack] : open) {
    if (!stack.empty()) complain("spans without end on " + trace.tracks[track]);
  }
  for (const auto& [track, spans] : trace.spans) {
    if (!trace.tracks.contains(track)) complain("a track without a name");
    if (!trace.processes.contains(track.first)) complain("a process without a name");
  }
  return trace;
}

/// Every arrow begins once, where something is issued, and ends once, later, at a wait or where its
/// bytes became visible.
inline void expect_whole_flows(const TraceFile& trace) {
  std::size_t bad = 0;
  for (const auto& [id, flow] : trace.flows) {
    bool good = flow.starts.size() == 1 && flow.ends.size() == 1 && flow.steps.size() <= 1;
    if (good) {
      const std::int64_t middle = flow.steps.empty() ? flow.ends[0].time : flow.steps[0].time;
      good = flow.starts[0].time < middle && middle <= flow.ends[0].time &&
             flow.starts[0].within == "issue";
      const bool at_memory = trace.tracks.at(flow.ends[0].track) == "memory";
      good = good && at_memory == flow.steps.empty();
      if (!at_memory) {
        good = good && trace.tracks.at(flow.steps[0].track) == "memory" &&
               (flow.ends[0].within == "poll" || flow.ends[0].within == "flag wait" ||
                flow.ends[0].within == "remote read");
      }
    }
    if (!good && ++bad == 1) ADD_FAILURE() << "arrow " << id << " is not whole";
  }
  EXPECT_EQ(bad, 0u);
}

}  // namespace orrery::cli
