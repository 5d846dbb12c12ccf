// DeepEP's low-latency kernels: what they send, what of the fabric they rely on and that this alone
// makes them right, and what they say when something is missing. T numbers as in
// robust_routing_test.cc, which runs them through the other shapes. Not here: T20 (it has no ring
// queues), T22 and T23 (a run has one communicator, and no device dies), T24 (none of its counters
// lives longer than a call).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

constexpr const char* kScopes[] = {"DEVICE_PAIR", "CORE_PAIR", "NONE"};

// Rows of many blocks, so that the adversary can hold some of them back.
RunConfig large_rows(const std::string& scope, const std::string& release, std::uint64_t seed = 1) {
  RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", scope, "test");
  config.settings = {{"algorithm.release", release}};
  config.adversary = true;
  config.seed = seed;
  return config;
}

double latency(const Result& result, int operation) {
  return result.operations(operation).latency_us().max();
}

TEST(DeepEpLl, SendsARowPerChoiceAndACountPerExpert) {
  constexpr std::uint32_t kDevices = 4;
  constexpr std::uint32_t kExperts = 8;
  RunConfig config = small_run("deepep-ll", kDevices, 3, make_workload(kExperts, 2, 6));
  const auto counters = good_run(config).counters();
  const std::uint32_t entries = kDevices * 6 * 2;
  EXPECT_EQ(counters.at("puts"), 3 * 2 * entries);
  // Of both operations and devices: a word for every expert, and one that says what is clean.
  EXPECT_EQ(counters.at("signals"), 3 * 2 * kDevices * (kExperts + 1));
  EXPECT_EQ(counters.at("drains"), 0);  // the fabric orders
  // All cores meet between sending and receiving a dispatch, and before the sums.
  EXPECT_EQ(counters.at("core_barriers"), 3 * kDevices * 2);
}

TEST(DeepEpLl, T2_CountsOfZeroAreSentToo) {
  RunConfig config = small_run("deepep-ll", 4, 3, routed(make_workload(8, 2, 4), {{-1, -1}}));
  const auto counters = good_run(config).counters();
  EXPECT_EQ(counters.at("puts"), 0);
  EXPECT_EQ(counters.at("signals"), 3 * 2 * 4 * (8 + 1));
}

// The source's kernels take at most 11 choices, a warp for each; nothing of that is modelled.
TEST(DeepEpLl, T10_MoreChoicesThanTheSourceTakes) {
  for (const std::uint32_t top_k : {12u, 24u}) {
    good_run(small_run("deepep-ll", 4, 3, make_workload(32, top_k, 5)));
  }
}

TEST(DeepEpLl, T14_SprayedPacketsUnderEveryOrder) {
  for (const char* scope : kScopes) {
    RunConfig config = large_rows(scope, "fence");
    emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
    good_run(config);
  }
}

// With fences it needs no order of the fabric: what it declares, and all it needs.
TEST(DeepEpLl, T15_FencesKeepRowsBeforeTheirCount) {
  for (const char* scope : kScopes) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) good_run(large_rows(scope, "fence", seed));
  }
}

// Without them a count of one core follows the rows of the others only where the fabric orders all
// puts between two devices. Here the first core has the rows and the others have most of the
// counts.
TEST(DeepEpLl, T15_TrustedOrderNeedsOrderPerDevicePair) {
  // Of a row of seeds that has all of the adversary's styles, some do not delay a put as a whole.
  constexpr std::uint64_t kSeeds = 20;
  constexpr std::uint64_t kStyles = 8;
  std::map<std::string, std::uint64_t> caught;
  for (const char* scope : kScopes) {
    for (std::uint64_t first = 1; first <= kSeeds * kStyles; first += kStyles) {
      std::uint64_t styles = 0;
      for (std::uint64_t seed = first; seed < first + kStyles; ++seed) {
        RunConfig config = large_rows(scope, "trust-order", seed);
        config.workload.set_tokens(1);
        config.workload.set_top_k(8);
        styles += is_caught(config) ? 1 : 0;
      }
      caught[scope] += styles > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(caught["DEVICE_PAIR"], 0u);
  EXPECT_GE(caught["CORE_PAIR"], kSeeds * 9 / 10);  // or all rows happen to be early
  EXPECT_EQ(caught["NONE"], kSeeds);
}

TEST(DeepEpLl, T15_TornReadsAreNamed) {
  RunConfig config = large_rows("NONE", "trust-order");
  config.iterations = 1;  // in the next call it would read what was given up
  const RunOutcome outcome = run_alone(config);
  EXPECT_THAT(failures_of(outcome.result), HasSubstr("torn read on device "));
}

TEST(DeepEpLl, T15_ContractsSayWhatMakesTheDifference) {
  // A word that is cut in two shows a count that nobody sent.
  RunConfig config = large_rows("DEVICE_PAIR", "fence");
  config.workload.set_hidden(32);
  for (const std::uint32_t block : {4u, 8u, 16u}) {
    config.machine.mutable_fabric()->set_atomic_block_bytes(block);
    good_run(config);
  }
  config.machine.mutable_fabric()->set_atomic_block_bytes(2);
  EXPECT_TRUE(is_caught(config));
}

TEST(DeepEpLl, T18_TheScopeOfFencesChangesTimesAlone) {
  std::map<std::string, Result> results;
  for (const char* scope : kScopes) {
    RunConfig config = large_rows(scope, "fence");
    config.adversary = false;
    results[scope] = good_run(config);
  }
  EXPECT_EQ(results["CORE_PAIR"].output_digest(), results["DEVICE_PAIR"].output_digest());
  EXPECT_EQ(results["NONE"].output_digest(), results["DEVICE_PAIR"].output_digest());
  // In dispatch the count is another core's: per core pair a release drains. In combine it is not.
  EXPECT_GT(latency(results["CORE_PAIR"], 0), latency(results["DEVICE_PAIR"], 0));
  EXPECT_GT(latency(results["NONE"], 2), latency(results["CORE_PAIR"], 2));
  EXPECT_EQ(results["DEVICE_PAIR"].counters().at("drains"), 0);
  EXPECT_GT(results["CORE_PAIR"].counters().at("drains"), 0);
}

// The finish counters of a call add up what several cores sent; nothing is left of them for the
// next, whatever its counts.
TEST(DeepEpLl, T19_SumsOfOneCallAreNotThoseOfTheNext) {
  std::vector<std::vector<int>> tokens;
  for (int token = 0; token < 24; ++token) tokens.push_back({token % 8, (token + 3) % 8});
  for (int token = 0; token < 24; ++token) tokens.push_back({6, token % 5});
  for (int token = 0; token < 24; ++token) tokens.push_back({-1, token % 2});
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RunConfig config = small_run("deepep-ll", 4, 4, routed(make_workload(8, 2, 6), tokens));
    config.iterations = 9;
    config.adversary = true;
    config.seed = seed;
    good_run(config);
  }
}

TEST(DeepEpLl, T21_AnyNumberOfCores) {
  std::string digest;
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u, 48u}) {
    const std::string bytes =
        good_run(small_run("deepep-ll", 4, cores, make_workload(8, 2, 6))).output_digest();
    if (digest.empty()) digest = bytes;
    EXPECT_EQ(bytes, digest) << cores;
  }
}

TEST(DeepEpLl, T25_EverybodySendsToOneDevice) {
  const Result even = good_run(small_run("deepep-ll", 12, 4, make_workload(24, 2, 16, 1024, 8)));
  const Workload hot = routed(make_workload(24, 2, 16, 1024, 8), {{6, 7}, {7, 6}});
  RunConfig config = small_run("deepep-ll", 12, 4, hot);
  const Result incast = good_run(config);
  EXPECT_GT(latency(incast, 0), 2 * latency(even, 0));
  config.adversary = true;
  good_run(config);
}

TEST(DeepEpLl, T26_OneTwoAndMixedTiers) {
  for (const char* placement : {"packed", "spread", "0,1,16,17,32,5"}) {
    for (const bool adversary : {false, true}) {
      RunConfig config = shipped_run("cm384", "deepep-ll", 6);
      config.placement = placement;
      config.iterations = 3;
      config.adversary = adversary;
      good_run(config);
    }
  }
}

// Rows of an expert lie in the order in which they came; what combine returns, and what is said
// about dispatch, does not depend on that.
TEST(DeepEpLl, T27_TheSameBytesInAnyOrderOfArrival) {
  RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 3, 9));
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
  config.adversary = false;
  config.settings = {{"algorithm.hook", "true"}};
  EXPECT_EQ(good_run(config).output_digest(), plain.output_digest());
}

TEST(DeepEpLl, T28_AMissingCountIsNamed) {
  RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 2, 8));
  config.settings = {{"algorithm.sabotage", "drop-count"}};
  const std::string report = run_alone(config).hang;
  // Expert 7 is the second of device 3; its list from device 0 is number 4 of 8, so core 2's.
  EXPECT_THAT(report, HasSubstr("device 3 core 2 (dispatch, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("holds 0x0, wants word other than"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 3 (count of expert 7)"));
  // The others want its outputs: those for device 0 are in lists 0 and 1 of 8, so core 0's.
  EXPECT_THAT(report, HasSubstr("expected writer: device 3 core 0 (rows of expert 6); 1 more slots "
                                "are missing"));
}

// Words that the call after next finds as they were: it takes slots for full that nobody wrote.
TEST(DeepEpLl, StaleCountsAreCaught) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 2, 8));
    config.settings = {{"algorithm.sabotage", "skip-clean"}};
    config.iterations = 4;
    config.seed = seed;
    EXPECT_TRUE(is_caught(config)) << seed;
    config.iterations = 1;
    good_run(config);
  }
}

TEST(DeepEpLl, AHookIsAnotherLaunch) {
  const auto launch = [](const Result& result, int operation) {
    return result.operations(operation).core_time_us().at("launch");
  };
  RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 2, 8));
  const Result together = good_run(config);
  config.settings = {{"algorithm.hook", "true"}};
  const Result apart = good_run(config);
  for (const int operation : {0, 2}) {
    EXPECT_DOUBLE_EQ(launch(together, operation), 1);
    EXPECT_DOUBLE_EQ(launch(apart, operation), 2);
  }
}

}  // namespace
}  // namespace orrery::moe
