// What is said of a sweep at its end: table, spread over seeds, keys that changed nothing, CSV.
#include "cli/sweep_table.h"

#include <gmock/gmock.h>

#include "cli/sweep_progress.h"
#include "emu/errors.h"

namespace orrery::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

SweepPlan plan_of(const std::vector<std::string>& axes, bool zip = false) {
  SweepRequest request;
  request.fixed = {{"topology", "tiny"}, {"algorithm", "cann-bsp"}};
  for (const std::string& axis : axes) request.add_axis("--vary", axis);
  request.zip = zip;
  return SweepPlan(request);
}

// Points with one metric; a fingerprint for each.
SweepResults results_of(const std::vector<double>& values,
                        const std::vector<std::uint64_t>& fingerprints) {
  SweepResults results;
  results.metrics = {"put.latency_us.max"};
  for (std::size_t i = 0; i < values.size(); ++i)
    results.points.push_back({"ok", "", {json(values[i])}, fingerprints[i]});
  return results;
}

TEST(SweepTable, SetsKeysAgainstMetrics) {
  const SweepPlan plan = plan_of({"tokens=4,128", "placement=packed,spread"});
  EXPECT_EQ(to_table(plan, results_of({1, 2.5, 1234567, 0.0004}, {1, 2, 3, 4})),
            "tokens  placement  put.latency_us.max\n"
            "     4     packed               1.000\n"
            "     4     spread               2.500\n"
            "   128     packed             1234567\n"
            "   128     spread               0.000\n");
}

TEST(SweepTable, ShowsOutcomesWhereOneIsNotFine) {
  const SweepPlan plan = plan_of({"tokens=1,2,3"});
  SweepResults results = results_of({1, 2, 3}, {1, 2, 3});
  results.points[1] = {"error", "too many, \"far\"", {nullptr}, 0};
  results.points[2] = {"", "", {nullptr}, 0};
  EXPECT_EQ(to_table(plan, results),
            "tokens  put.latency_us.max  outcome\n"
            "     1               1.000       ok\n"
            "     2                   -    error\n"
            "     3                   -\n");
  EXPECT_EQ(summary(plan, results),
            "3 points: 1 ok, 1 error, 1 not finished\n"
            "FAILED tokens=2: error: too many, \"far\"\n");
  EXPECT_EQ(to_csv(plan, results),
            "tokens,outcome,put.latency_us.max,error\n"
            "1,ok,1.0,\n"
            "2,error,,\"too many, \"\"far\"\"\"\n");
}

TEST(SweepTable, SpreadsOverSeeds) {
  const SweepPlan plan = plan_of({"seed=1:3", "tokens=8,16"});
  const SweepResults results = results_of({10, 20, 12, 40, 11, 30}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(seed_spread(plan, results),
            "over 3 seeds\n"
            "tokens  metric              seeds     min  median     max  spread %\n"
            "8       put.latency_us.max      3  10.000  11.000  12.000      18.2\n"
            "16      put.latency_us.max      3  20.000  30.000  40.000      66.7\n");
  EXPECT_EQ(seed_spread(plan_of({"tokens=8,16"}), results), "");
  EXPECT_EQ(seed_spread(plan_of({"seed=1", "tokens=8,16"}), results), "");
}

TEST(SweepTable, TheMedianOfTwoIsBetweenThem) {
  EXPECT_THAT(seed_spread(plan_of({"seed=1,2"}), results_of({10, 20}, {1, 2})),
              HasSubstr("15.000"));
}

TEST(SweepTable, NamesKeysThatChangedNothing) {
  const SweepPlan plan = plan_of({"tokens=8,16", "fabric.atomic_block_bytes=512,256,128"});
  const std::vector<double> values(6, 1);
  EXPECT_EQ(unchanged_keys(plan, results_of(values, {1, 1, 1, 2, 2, 2})),
            "note: fabric.atomic_block_bytes changed nothing in 4 of 4 comparisons\n");
  EXPECT_EQ(unchanged_keys(plan, results_of(values, {1, 2, 3, 4, 5, 6})), "");
  EXPECT_EQ(unchanged_keys(plan, results_of(values, {1, 2, 2, 4, 5, 6})),
            "note: fabric.atomic_block_bytes changed nothing in 1 of 4 comparisons, first tokens=8 "
            "fabric.atomic_block_bytes=256 and tokens=8 fabric.atomic_block_bytes=128\n");
  // A point without a result is compared with nothing.
  EXPECT_EQ(unchanged_keys(plan, results_of(values, {0, 1, 1, 0, 0, 2})),
            "note: fabric.atomic_block_bytes changed nothing in 1 of 1 comparison\n");
}

TEST(SweepTable, ZippedKeysChangeTogether) {
  const SweepPlan plan = plan_of({"tokens=8,16", "seed=1,2"}, true);
  EXPECT_EQ(unchanged_keys(plan, results_of({1, 1}, {7, 7})),
            "note: tokens, seed changed nothing in 1 of 1 comparison\n");
}

TEST(SweepMetrics, AreFoundByTheirPath) {
  const json result = json::parse(R"({
      "topology": "tiny", "verified": true, "counters": {"puts": 12},
      "settings": {"fabric.packet_bytes": "512"},
      "operations": [{"name": "put", "latency_us": {"max": 1.5}, "bytes_useful": 4,
                      "breakdown_us": {"queueing_L1-L2": 0.25}}]})");
  EXPECT_EQ(metric_of(result, "put.latency_us.max"), json(1.5));
  EXPECT_EQ(metric_of(result, "put.breakdown_us.queueing_L1-L2"), json(0.25));
  EXPECT_EQ(metric_of(result, "put.bytes_useful"), json(4));
  EXPECT_EQ(metric_of(result, "counters.puts"), json(12));
  EXPECT_EQ(metric_of(result, "settings.fabric.packet_bytes"), json("512"));
  EXPECT_EQ(metric_of(result, "verified"), json(true));
  for (const char* none : {"get.latency_us.max", "put.latency_us.p50", "counters", "operations",
                           "put.latency_us", "counters.gets", ""}) {
    EXPECT_EQ(metric_of(result, none), json(nullptr)) << none;
  }
}

TEST(SweepMetrics, ArePathsThatAResultCanHave) {
  check_metrics({"dispatch.latency_us.max", "any.breakdown_us.queueing_L1-L2", "counters.puts",
                 "verified", "host.wall_seconds", "x.bytes_on_wire", "virtual_time_us"});
  for (const char* wrong : {"dispatch", "dispatch.latency", "dispatch.latency_us",
                            "dispatch.latency_us.mx", "dispatch.", "", "."}) {
    EXPECT_THROW(check_metrics({wrong}), emu::ConfigError) << wrong;
  }
}

TEST(SweepProgress, EstimatesFromWhatThisSweepHasDone) {
  EXPECT_EQ(progress_text(0, 0, 200, 3), "0 of 200 points, 3 s");
  EXPECT_EQ(progress_text(100, 20, 200, 10), "120 of 200 points, 10 s, about 40 s left");
  EXPECT_EQ(progress_text(0, 1, 1001, 30), "1 of 1001 points, 30 s, about 8.3 h left");
  EXPECT_EQ(progress_text(0, 200, 200, 600), "200 of 200 points, 10 min");
}

}  // namespace
}  // namespace orrery::cli
