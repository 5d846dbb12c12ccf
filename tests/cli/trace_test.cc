// orrery run --trace: the file parsed back.
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/cli/trace_file.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kSixteen =
    "run --topology cm384 --devices 16 --algorithm cann-bsp --iterations 2 --quiet ";
const std::string kTiny = "run --topology tiny --algorithm cann-bsp --quiet ";

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
std::string path_of(const std::string& name) { return (scratch_folder() / name).string(); }

Outcome traced(const std::string& arguments, const std::string& name, int processes = 0) {
  return run_program(arguments + " --trace " + path_of(name), processes);
}

// One traced run of sixteen dies for all tests of its parts.
class SixteenDies : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    outcome_ = traced(kSixteen + "--json " + path_of("sixteen.result.json"), "sixteen.json");
    trace_ = read_trace(path_of("sixteen.json"));
    result_ = Json::parse(std::ifstream(path_of("sixteen.result.json")), nullptr, false);
  }
  void SetUp() override {
    ASSERT_EQ(outcome_.code, 0) << outcome_.err;
    ASSERT_TRUE(result_.is_object());
  }

  static Outcome outcome_;
  static TraceFile trace_;
  static Json result_;
};
Outcome SixteenDies::outcome_;
TraceFile SixteenDies::trace_;
Json SixteenDies::result_;

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

TEST_F(SixteenDies, HasNamesForAllItsTracks) {
  EXPECT_THAT(trace_.complaints, IsEmpty());
  EXPECT_EQ(outcome_.err, "");
  EXPECT_GE(trace_.process("critical path"), 0);
  EXPECT_GE(trace_.process("fabric"), 0);
  std::map<int, int> cores;
  for (const auto& [track, name] : trace_.tracks) {
    cores[track.first] += name.starts_with("core ");
  }
  for (int device = 0; device < 16; ++device) {
    const int process = trace_.process("device " + std::to_string(device));
    ASSERT_GE(process, 0);
    EXPECT_EQ(cores[process], 48);
  }
  EXPECT_EQ(trace_.other.at("digest"), result_.at("digest"));
  EXPECT_EQ(trace_.other.at("spans_left_out"), "0");
}

TEST_F(SixteenDies, SpansNest) {
  const std::map<std::string, std::size_t> shallowest = {
      {"operation", 0}, {"phase", 1}, {"activity", 1}};
  std::set<std::string> phases;
  for (const auto& [track, spans] : trace_.spans) {
    if (!TraceFile::is_device(track.first) || trace_.tracks[track] == "memory") continue;
    std::int64_t operation_end = 0;
    std::int64_t phase_end = 0;
    std::int64_t activity_end = 0;
    for (const TraceFile::Span& span : spans) {
      ASSERT_LT(span.start, span.end);
      if (span.category == "operation") {
        EXPECT_EQ(span.depth, 0u);
        EXPECT_GE(span.start, operation_end);
        EXPECT_EQ(activity_end, operation_end) << "what the core did ends with the operation";
        operation_end = span.end;
        activity_end = span.start;
      } else if (span.category == "phase") {
        EXPECT_EQ(span.depth, 1u);
        EXPECT_GE(span.start, phase_end);
        EXPECT_LE(span.end, operation_end);
        phase_end = span.end;
        phases.insert(span.name);
      } else {
        EXPECT_EQ(span.category, "activity");
        EXPECT_EQ(span.depth, span.start < phase_end ? 2u : 1u);
        EXPECT_EQ(span.start, activity_end) << "a gap";
        activity_end = span.end;
        EXPECT_LE(span.end, span.depth == 2 ? phase_end : operation_end);
      }
    }
    EXPECT_EQ(activity_end, operation_end);
  }
  EXPECT_THAT(phases,
              ElementsAre("copy out", "down projections", "reduce", "send outputs", "send tokens",
                          "set status", "sum counts", "up projections", "wait dispatch"));
}

TEST_F(SixteenDies, SumsOfTracksAreTheCoreTimesOfTheResult) {
  std::map<std::string, std::map<std::string, std::int64_t>> sums;
  std::map<std::string, std::int64_t> cores;
  for (const auto& [track, spans] : trace_.spans) {
    if (!TraceFile::is_device(track.first)) continue;
    std::string operation;
    std::int64_t total = 0;
    for (const TraceFile::Span& span : spans) {
      if (span.category == "operation") {
        EXPECT_EQ(total, 0);
        operation = span.name;
        total = span.end - span.start;
        ++cores[operation];
      } else if (span.category == "activity") {
        sums[operation][underscored(span.name)] += span.end - span.start;
        total -= span.end - span.start;
      }
    }
    EXPECT_EQ(total, 0);
  }
  for (const Json& operation : result_.at("operations")) {
    const std::string name = operation.at("name");
    const Json& expected = operation.at("core_time_us");
    EXPECT_EQ(expected.size(), sums[name].size());
    for (const auto& [category, sum] : sums[name]) {
      ASSERT_TRUE(expected.contains(category)) << name << " " << category;
      const double mean = static_cast<double>(sum) / static_cast<double>(cores[name]) / 1e6;
      EXPECT_NEAR(mean, expected[category].get<double>(), 1e-9 + mean * 1e-12)
          << name << " " << category;
    }
  }
}

TEST_F(SixteenDies, EveryPutIsAnArrowWithBothEnds) {
  expect_whole_flows(trace_);
  const Json& counters = result_.at("counters");
  const double puts = counters.at("puts").get<double>() + counters.at("signals").get<double>();
  EXPECT_EQ(static_cast<double>(trace_.flows.size()), puts);
  // Every core waits for statuses, once per dispatch; whoever has tokens waits for their rows.
  const auto waits = std::count_if(trace_.flows.begin(), trace_.flows.end(),
                                   [](const auto& flow) { return !flow.second.steps.empty(); });
  EXPECT_GT(waits, 100);
}

TEST_F(SixteenDies, CriticalPathCoversEachOperation) {
  const int process = trace_.process("critical path");
  int number = 0;
  for (const Json& operation : result_.at("operations")) {
    const TraceFile::Track track{process, ++number};
    const std::string name = operation.at("name");
    EXPECT_THAT(trace_.tracks[track], HasSubstr(name));
    const auto& steps = trace_.spans[track];
    ASSERT_FALSE(steps.empty());
    std::map<std::string, std::int64_t> parts;
    std::int64_t time = steps.front().start;
    for (const TraceFile::Span& step : steps) {
      EXPECT_EQ(step.start, time) << "a gap or an overlap";
      time = step.end;
      std::string part = step.name.substr(0, step.name.find(" on "));
      part = part.substr(0, part.find_first_of("0123456789→"));
      while (part.ends_with(' ')) part.pop_back();
      parts[underscored(part)] += step.end - step.start;
    }
    // From the slowest device's kernel start to its end.
    const int device =
        trace_.process("device " + std::to_string(operation.at("slowest_device").get<int>()));
    std::set<std::pair<std::int64_t, std::int64_t>> kernels;
    for (const TraceFile::Span& span : trace_.spans[{device, 1}]) {
      if (span.name == name && span.args.value("iteration", -1) == operation["slowest_iteration"]) {
        kernels.emplace(span.start, span.end);
      }
    }
    EXPECT_THAT(kernels, ElementsAre(std::pair(steps.front().start, steps.back().end)));
    std::map<std::string, std::int64_t> expected;
    for (const auto& [part, us] : operation.at("breakdown_us").items()) {
      // A class of links may have a digit in its name.
      expected[part.substr(0, part.find_first_of("0123456789"))] += picoseconds(us);
    }
    EXPECT_EQ(parts, expected);
  }
}

TEST_F(SixteenDies, LinksAreBusyInShares) {
  ASSERT_FALSE(trace_.counters.empty());
  for (const auto& [name, values] : trace_.counters) {
    EXPECT_LE(values.size(), 514u) << name;
    EXPECT_EQ(values.back().second, 0) << name;
    double busiest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      busiest = std::max(busiest, values[i].second);
      EXPECT_GT(values[i].first, i > 0 ? values[i - 1].first : -1);
    }
    EXPECT_GT(busiest, 0) << name;
    EXPECT_LE(busiest, 100) << name;
  }
}

TEST_F(SixteenDies, TracingChangesNoResult) {
  const std::string path = path_of("untraced.result.json");
  ASSERT_EQ(run_program(kSixteen + "--json " + path).code, 0);
  Json untraced = Json::parse(std::ifstream(path), nullptr, false);
  Json with = result_;
  untraced.erase("host");
  with.erase("host");
  EXPECT_EQ(untraced, with);
}

TEST_F(SixteenDies, HasTheSameBytesWithAnyNumberOfProcessesAndThreads) {
  const std::string alone = bytes_of(path_of("sixteen.json"));
  for (const int processes : {1, 2, 3}) {
    ASSERT_EQ(traced(kSixteen, "again.json", processes).code, 0);
    EXPECT_EQ(bytes_of(path_of("again.json")) == alone, true) << processes << " processes";
  }
  for (const int processes : {0, 2}) {
    ASSERT_EQ(traced(kSixteen + "--threads 3", "again.json", processes).code, 0);
    EXPECT_EQ(bytes_of(path_of("again.json")) == alone, true) << processes << " processes, threads";
  }
}

TEST_F(SixteenDies, HasTheSameBytesWithoutPayload) {
  ASSERT_EQ(traced(kSixteen + "--payload control", "control.json").code, 0);
  EXPECT_EQ(bytes_of(path_of("control.json")) == bytes_of(path_of("sixteen.json")), true);
}

TEST(TraceFileTest, AdversaryAndOtherTransportsGiveTheSameBytes) {
  const std::string arguments =
      kTiny +
      "--iterations 3 --placement spread --adversary --seed 5 --set workload.jitter_ns=3000 ";
  ASSERT_EQ(traced(arguments, "one.json").code, 0);
  const std::string alone = bytes_of(path_of("one.json"));
  for (const char* transport : {"mpi", "ofi"}) {
    ASSERT_EQ(traced(arguments + "--transport " + transport, "three.json", 3).code, 0);
    EXPECT_EQ(bytes_of(path_of("three.json")) == alone, true) << transport;
  }
  const TraceFile trace = read_trace(path_of("one.json"));
  EXPECT_THAT(trace.complaints, IsEmpty());
  expect_whole_flows(trace);
}

TEST(TraceFileTest, LeavesOutWhatIsBeyondTheLimitAndSaysSo) {
  const std::string limited = kSixteen + "--trace-events 20000 ";
  const Outcome outcome = traced(limited, "limited.json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("left out"));
  EXPECT_THAT(outcome.err, HasSubstr("each device may have 1250"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  const TraceFile trace = read_trace(path_of("limited.json"));
  EXPECT_THAT(trace.complaints, IsEmpty());
  expect_whole_flows(trace);
  EXPECT_LE(trace.device_events, 20000u);
  EXPECT_GT(trace.device_events, 10000u);
  EXPECT_THAT(trace.other.at("left_out").get<std::string>(), HasSubstr("left out"));
  EXPECT_GT(std::stoi(trace.other.at("spans_left_out").get<std::string>()), 0);
  EXPECT_GT(std::stoi(trace.other.at("puts_left_out").get<std::string>()), 0);
  ASSERT_EQ(traced(limited, "limited3.json", 3).code, 0);
  EXPECT_EQ(bytes_of(path_of("limited3.json")) == bytes_of(path_of("limited.json")), true);
}

TEST(TraceFileTest, ShowsTheChosenDevicesAndCountsTheirOtherPuts) {
  ASSERT_EQ(traced(kSixteen + "--trace-devices 0,5-6", "three-devices.json").code, 0);
  const TraceFile trace = read_trace(path_of("three-devices.json"));
  EXPECT_THAT(trace.complaints, IsEmpty());
  expect_whole_flows(trace);
  std::vector<std::string> devices;
  for (const auto& [number, name] : trace.processes) {
    if (TraceFile::is_device(number)) devices.push_back(name);
  }
  EXPECT_THAT(devices, ElementsAre("device 0", "device 5", "device 6"));
  EXPECT_FALSE(trace.flows.empty());
  EXPECT_GT(std::stoi(trace.other.at("puts_from_or_to_devices_not_traced").get<std::string>()), 0);
  EXPECT_EQ(trace.other.at("spans_left_out"), "0");
}

TEST(TraceFileTest, ShowsATimeRange) {
  const Outcome outcome = traced(kTiny + "--trace-from-us 1.5 --trace-to-us 4.25", "range.json");
  ASSERT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const TraceFile trace = read_trace(path_of("range.json"));
  EXPECT_THAT(trace.complaints, IsEmpty());
  expect_whole_flows(trace);
  std::size_t spans = 0;
  for (const auto& [track, list] : trace.spans) {
    if (!TraceFile::is_device(track.first) || trace.tracks.at(track) == "memory") continue;
    for (const TraceFile::Span& span : list) {
      ++spans;
      EXPECT_LT(span.start, 4'250'000) << span.name;
      EXPECT_GT(span.end, 1'500'000) << span.name;
    }
  }
  EXPECT_GT(spans, 50u);
  EXPECT_FALSE(trace.flows.empty());
  for (const auto& [name, values] : trace.counters) {
    EXPECT_GE(values.front().first, 1'500'000) << name;
    EXPECT_LE(values.back().first, 4'251'000) << name;
  }
}

TEST(TraceFileTest, ShowsWhereARunHangs) {
  // No event is left; the limit of virtual time comes amid waits, amid a barrier.
  for (const char* how : {"--set algorithm.sabotage=drop-status", "--max-virtual-ms 0.003",
                          "--max-virtual-ms 0.0018"}) {
    const Outcome outcome = traced(kTiny + how, "hang.json");
    EXPECT_EQ(outcome.code, 3);
    const TraceFile trace = read_trace(path_of("hang.json"));
    EXPECT_THAT(trace.complaints, IsEmpty());
    expect_whole_flows(trace);
    EXPECT_LT(trace.process("critical path"), 0);
    std::size_t hanging = 0;
    for (const auto& [track, spans] : trace.spans) {
      for (const TraceFile::Span& span : spans) hanging += span.name == "hang";
    }
    EXPECT_EQ(hanging > 0, !std::string(how).ends_with("0.0018"));
    ASSERT_EQ(traced(kTiny + how, "hang2.json", 2).code, 3);
    EXPECT_EQ(bytes_of(path_of("hang2.json")) == bytes_of(path_of("hang.json")), true);
  }
}

TEST(TraceFileTest, ShowsARunThatFails) {
  const Outcome outcome = traced(kTiny + "--set algorithm.sabotage=wrong-slot", "failed.json");
  EXPECT_EQ(outcome.code, 1);
  const TraceFile trace = read_trace(path_of("failed.json"));
  EXPECT_THAT(trace.complaints, IsEmpty());
  expect_whole_flows(trace);
  EXPECT_GE(trace.process("critical path"), 0);
}

TEST(TraceFileTest, ShowsTheOtherAlgorithms) {
  for (const char* algorithm : {"p2p", "ring", "alltoall"}) {
    for (const char* completion : {"flag", "flush"}) {
      const Outcome outcome =
          traced(std::string("run --topology tiny --quiet --iterations 3 --algorithm ") +
                     algorithm + " --set algorithm.completion=" + completion,
                 "benchmark.json");
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const TraceFile trace = read_trace(path_of("benchmark.json"));
      EXPECT_THAT(trace.complaints, IsEmpty());
      expect_whole_flows(trace);
      std::set<std::string> phases;
      for (const auto& [track, spans] : trace.spans) {
        for (const TraceFile::Span& span : spans) {
          if (span.category == "phase") phases.insert(span.name);
        }
      }
      EXPECT_TRUE(phases.contains("put to peers")) << algorithm;
      EXPECT_TRUE(phases.contains("wait for flags")) << algorithm;
    }
  }
}

}  // namespace
}  // namespace orrery::cli
