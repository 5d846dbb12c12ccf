#include "cli/comparison.h"

#include <gmock/gmock.h>

#include <cmath>

#include "cli/comparison_json.h"
#include "cli/comparison_table.h"
#include "cli/result_inputs.h"
#include "emu/errors.h"
#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::int64_t to_ps(double us) { return std::llround(us * 1e6); }

ResultFile file_of(const std::string& name, const moe::Result& result) {
  ResultFile file;
  file.name = name;
  file.result = result;
  return file;
}

ResultPair pair_of(const moe::Result& first, const moe::Result& other) {
  return compare_pair("A", first, "B", other);
}

// --- The breakdown ---

class BreakdownOf : public ::testing::TestWithParam<RunOptions> {};

TEST_P(BreakdownOf, ChangesSumToTheChangeOfTheMaximumToThePicosecond) {
  const moe::Result first = run_result(run_options("cm384", "cann-bsp", "16"));
  const moe::Result other = run_result(GetParam());
  const ResultPair pair = pair_of(first, other);
  ASSERT_EQ(pair.operations_size(), 3);
  int moved = 0;
  for (int i = 0; i < 3; ++i) {
    const OperationChange& operation = pair.operations(i);
    std::int64_t sum = 0;
    double shares = 0;
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (const PartChange& part : operation.breakdown_us()) {
      EXPECT_NE(part.name(), "not in the breakdown");
      EXPECT_EQ(to_ps(part.change_us()), to_ps(part.other_us()) - to_ps(part.first_us()));
      EXPECT_NE(to_ps(part.change_us()), 0);
      EXPECT_LE(std::abs(to_ps(part.change_us())), last) << "largest first";
      last = std::abs(to_ps(part.change_us()));
      sum += to_ps(part.change_us());
      shares += part.share_percent();
      ++moved;
    }
    EXPECT_EQ(sum, to_ps(operation.change_of_max_us()));
    EXPECT_EQ(sum, to_ps(other.operations(i).latency_us().max()) -
                       to_ps(first.operations(i).latency_us().max()));
    EXPECT_NEAR(shares, sum == 0 ? 0 : 100, 1e-6);
  }
  EXPECT_GT(moved, 3) << "nothing to sum";
}

std::vector<RunOptions> others() {
  std::vector<RunOptions> list = {
      run_options("cm384", "cann-bsp", "16", {"fabric.clos.device_link.latency_ns=236"}),
      run_options("cm384", "cann-bsp", "16", {"device.cores=24", "fabric.packet_bytes=512"}),
      run_options("cm384", "cann-bsp", "32"), run_options("tiny", "cann-bsp"),
      run_options("star", "cann-bsp", "16", {"algorithm.quantise=bf16"})};
  list[1].tokens = "9";
  list[2].iterations = "3";
  list[3].seed = "5";
  return list;
}

INSTANTIATE_TEST_SUITE_P(Runs, BreakdownOf, ::testing::ValuesIn(others()));

TEST(Comparison, WhatABreakdownLeavesOutIsAPartOfItsOwn) {
  const moe::Result first = simple_result("put", 5);
  moe::Result other = simple_result("put", 7);
  (*other.mutable_operations(0)->mutable_breakdown_us())["compute"] = 6.5;
  const ResultPair pair = pair_of(first, other);
  ASSERT_EQ(pair.operations(0).breakdown_us_size(), 2);
  EXPECT_EQ(pair.operations(0).breakdown_us(0).name(), "compute");
  EXPECT_EQ(pair.operations(0).breakdown_us(0).share_percent(), 75);
  EXPECT_EQ(pair.operations(0).breakdown_us(1).name(), "not in the breakdown");
  EXPECT_EQ(pair.operations(0).breakdown_us(1).change_us(), 0.5);
}

// --- Inputs ---

TEST(Comparison, EveryFieldThatIsNoOutcomeIsAnInput) {
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs_of(moe::Result())) names.push_back(name);
  for (const char* input : {"topology", "workload", "algorithm", "devices", "tokens", "seed",
                            "iterations", "placement", "align", "adversary"}) {
    EXPECT_THAT(names, ::testing::Contains(input));
  }
  for (const char* outcome : {"digest", "output_digest", "verified", "virtual_time_us", "host"}) {
    EXPECT_THAT(names, Not(::testing::Contains(outcome)));
  }
}

TEST(Comparison, SaysInWhatTheInputsDiffer) {
  const moe::Result first = run_result(run_options("tiny", "cann-bsp"));
  RunOptions options = run_options("tiny", "cann-bsp", "", {"device.cores=2"});
  options.seed = "3";
  options.align = true;
  options.placement = "spread";
  const ResultPair pair = pair_of(first, run_result(options));
  EXPECT_THAT(pair.differing_inputs(), ElementsAre("seed", "placement", "align", "device.cores"));
  EXPECT_EQ(pair.statement(),
            "differ in 4 inputs: seed, placement, align, device.cores; no ratio below can be put "
            "down to one of them alone");
}

TEST(Comparison, TokensThatASettingChangedCountOnce) {
  const moe::Result first = run_result(run_options("tiny", "cann-bsp"));
  const moe::Result other = run_result(run_options("tiny", "cann-bsp", "", {"workload.tokens=9"}));
  EXPECT_EQ(other.tokens(), 9);
  const ResultPair pair = pair_of(first, other);
  EXPECT_THAT(pair.differing_inputs(), ElementsAre("workload.tokens"));
  EXPECT_EQ(pair.statement(), "differ in one input alone: workload.tokens");
}

TEST(Comparison, TheAdversaryIsAnInput) {
  RunOptions options = run_options("tiny", "cann-bsp");
  const moe::Result first = run_result(options);
  options.adversary = true;
  const ResultPair pair = pair_of(first, run_result(options));
  EXPECT_THAT(pair.differing_inputs(), ElementsAre("adversary"));
  EXPECT_FALSE(pair.same_latencies());
}

TEST(Comparison, SameInputsAreTheSameRunOrAnotherVersion) {
  const moe::Result first = run_result(run_options("tiny", "cann-bsp"));
  EXPECT_EQ(pair_of(first, first).statement(), "have the same inputs and the same digests");
  moe::Result other = first;
  other.set_digest("0000000000000000");
  EXPECT_THAT(pair_of(first, other).statement(),
              HasSubstr("same inputs but not the same digests: different versions of Orrery"));
}

TEST(Comparison, ShowsWhatTheTopologySaysWhereNothingWasSet) {
  const Comparison comparison = compare(
      {file_of("a", run_result(run_options("tiny", "cann-bsp"))),
       file_of("b", run_result(run_options("tiny", "cann-bsp", "",
                                           {"fabric.clos.uplink.latency_ns=250",
                                            "algorithm.quantise=bf16", "workload.jitter_ns=7"})))});
  ASSERT_EQ(comparison.inputs_size(), 3);
  EXPECT_THAT(comparison.inputs(0).values(), ElementsAre("not set (int8)", "bf16"));
  EXPECT_EQ(comparison.inputs(1).input(), "fabric.clos.uplink.latency_ns");
  EXPECT_THAT(comparison.inputs(1).values(), ElementsAre("not set (500)", "250"));
  EXPECT_THAT(comparison.inputs(2).values(), ElementsAre("not set (0)", "7"));
}

// --- Operations, counters, links ---

TEST(Comparison, RatiosCountersAndLinks) {
  moe::Result first = simple_result("put", 5);
  moe::Result other = simple_result("put", 7.5);
  (*first.mutable_counters())["puts"] = 12;
  (*first.mutable_counters())["polls"] = 100;
  (*other.mutable_counters())["puts"] = 12;
  (*other.mutable_counters())["polls"] = 50;
  (*other.mutable_counters())["gets"] = 3;
  (*first.mutable_operations(0)->mutable_core_time_us())["idle"] = 1;
  (*other.mutable_operations(0)->mutable_core_time_us())["poll"] = 3;
  moe::BusyLink& link = *first.add_busiest_links();
  link.set_name("a -> b");
  link.set_busy_share(0.5);
  *other.add_busiest_links() = link;
  other.mutable_busiest_links(0)->set_queueing_us(2);
  other.add_busiest_links()->set_name("c -> d");
  other.mutable_busiest_links(1)->set_busy_share(0.25);

  const ResultPair pair = pair_of(first, other);
  EXPECT_EQ(pair.operations(0).latency_us_size(), 5);
  EXPECT_EQ(pair.operations(0).latency_us(4).name(), "max");
  EXPECT_EQ(pair.operations(0).latency_us(4).ratio(), 1.5);
  ASSERT_EQ(pair.operations(0).core_time_us_size(), 2);
  EXPECT_EQ(pair.operations(0).core_time_us(0).name(), "poll");
  EXPECT_EQ(pair.operations(0).core_time_us(1).change(), -1);
  EXPECT_EQ(pair.equal_counters(), 1);
  ASSERT_EQ(pair.counters_size(), 2);
  EXPECT_EQ(pair.counters(0).name(), "gets");
  EXPECT_EQ(pair.counters(0).ratio(), 0) << "from nothing";
  EXPECT_EQ(pair.counters(1).change(), -50);
  ASSERT_EQ(pair.busiest_links_size(), 2);
  EXPECT_EQ(pair.busiest_links(0).other_queueing_us(), 2);
  EXPECT_EQ(pair.busiest_links(1).first_busy_share(), 0);
}

TEST(Comparison, OperationsOfOneResultAreNamed) {
  const moe::Result first = simple_result("put", 5);
  moe::Result other = simple_result("put", 5);
  *other.add_operations() = simple_result("signal", 1).operations(0);
  const ResultPair pair = pair_of(first, other);
  EXPECT_THAT(pair.operations_of_one(), ElementsAre("signal"));
  EXPECT_FALSE(pair.same_latencies());
  EXPECT_FALSE(pair_of(other, first).same_latencies());
  const std::string table = to_table(compare({file_of("a", first), file_of("b", other)}));
  EXPECT_THAT(table, HasSubstr("not in both A and B: signal"));
}

TEST(Comparison, MoreThanTwoAreHeldAgainstTheFirst) {
  const Comparison comparison =
      compare({file_of("a", simple_result("put", 4)), file_of("b", simple_result("put", 5)),
               file_of("c", simple_result("put", 6))});
  ASSERT_EQ(comparison.pairs_size(), 2);
  EXPECT_EQ(comparison.pairs(1).first(), "A");
  EXPECT_EQ(comparison.pairs(1).other(), "C");
  EXPECT_EQ(comparison.pairs(1).operations(0).latency_us(0).ratio(), 1.5);
  const std::string table = to_table(comparison);
  EXPECT_THAT(table, HasSubstr("B/A      C/A\n"));
  EXPECT_THAT(table, HasSubstr("4.000        5.000        6.000   1.2500   1.5000\n"));
  EXPECT_THAT(table, HasSubstr("--- C against A ---"));
}

TEST(Comparison, NamesWithoutUtf8StillPrintAsJson) {
  const moe::Result result = simple_result("put", 4);
  const Comparison comparison = compare({file_of("\xff", result), file_of("b", result)});
  EXPECT_THAT(to_json(comparison), HasSubstr("\"file\": \"\xEF\xBF\xBD\""));
}

TEST(Comparison, ResultsAndSweepsDoNotMix) {
  ResultFile sweep;
  sweep.name = "s";
  sweep.is_sweep = true;
  sweep.points.push_back(simple_point({{"device.cores", "2"}}, simple_result("put", 4)));
  const ResultFile result = file_of("r", simple_result("put", 4));
  EXPECT_THROW(compare({result, sweep}), emu::ConfigError);
  EXPECT_THROW(compare({sweep, result}), emu::ConfigError);
  EXPECT_THROW(compare({result}), emu::ConfigError);
}

}  // namespace
}  // namespace orrery::cli
