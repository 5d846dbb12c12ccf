// The collectives' way: what it sends, that its fences and waits are what makes it right, and what
// it says when a signal is missing. T numbers as in robust_routing_test.cc, which runs it through
// the other shapes. Not here: T19 and T20 (it has no sums and no ring queues), T22 and T23 (a run
// has one communicator, and no device dies).
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

RunConfig bsp(const Settings& settings = {}, const Workload& workload = make_workload(8, 2, 8)) {
  RunConfig config = small_run("nccl-bsp", 4, 4, workload);
  config.settings = settings;
  return config;
}

RunConfig large_rows(const std::string& scope, const std::string& sabotage,
                     std::uint64_t seed = 1) {
  RunConfig config = bsp({{"algorithm.sabotage", sabotage}}, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", scope, "test");
  config.adversary = true;
  config.seed = seed;
  return config;
}

double latency(const Result& result, int operation) {
  return result.operations(operation).latency_us().max();
}

TEST(NcclBsp, SendsOneBulkPutPerPeerChannelAndExchange) {
  constexpr std::uint32_t kDevices = 4;
  std::vector<std::vector<int>> tokens;  // every device has rows for every other
  for (int token = 0; token < 32; ++token) tokens.push_back({token % 8, (token + 2) % 8});
  for (const std::uint32_t channels : {1u, 3u}) {
    const auto counters = good_run(bsp({{"algorithm.channels", std::to_string(channels)}},
                                       routed(make_workload(8, 2, 32), tokens)))
                              .counters();
    EXPECT_EQ(counters.at("puts"), 3 * kDevices * (kDevices - 1) * (1 + 2 * channels));
    EXPECT_EQ(counters.at("signals"), 3 * kDevices * kDevices * (1 + 2 * channels));
    EXPECT_EQ(counters.at("fences"), counters.at("puts"));
    EXPECT_EQ(counters.at("core_barriers"), 0);
  }
}

TEST(NcclBsp, EveryStepIsAKernelAndTheHostComesBetween) {
  const auto time = [](const Result& result, int operation, const std::string& what) {
    const auto& times = result.operations(operation).core_time_us();
    return times.contains(what) ? times.at(what) : 0;
  };
  const Result plain = good_run(bsp());
  EXPECT_DOUBLE_EQ(time(plain, 0, "launch"), 5);  // at 1 us
  EXPECT_DOUBLE_EQ(time(plain, 0, "host_sync"), 5);
  EXPECT_DOUBLE_EQ(time(plain, 2, "launch"), 3);
  EXPECT_DOUBLE_EQ(time(plain, 2, "host_sync"), 0);
  // Once per call, and on everybody's critical path.
  EXPECT_DOUBLE_EQ(plain.operations(0).breakdown_us().at("host_sync"), 5);
  RunConfig without = bsp();
  without.machine.mutable_device()->set_host_sync_ns(0);
  EXPECT_NEAR(latency(plain, 0) - latency(good_run(without), 0), 5, 0.1);
  EXPECT_DOUBLE_EQ(time(good_run(bsp({{"algorithm.probs", "true"}})), 0, "launch"), 6);
}

TEST(NcclBsp, AWrongWeightAtAnExpertIsSeen) {
  const RunOutcome outcome =
      run_alone(bsp({{"algorithm.probs", "true"}, {"algorithm.sabotage", "wrong-prob"}}));
  EXPECT_FALSE(outcome.result.verified());
  EXPECT_THAT(failures_of(outcome.result), HasSubstr("has the weight of another one"));
}

TEST(NcclBsp, TheNumberOfChannelsChangesNoByte) {
  const std::string digest = good_run(bsp()).output_digest();
  for (const char* channels : {"1", "2", "7", "64"}) {
    EXPECT_EQ(good_run(bsp({{"algorithm.channels", channels}})).output_digest(), digest);
  }
}

TEST(NcclBsp, T14_SprayedPacketsUnderEveryOrder) {
  for (const char* scope : kScopes) {
    RunConfig config = large_rows(scope, "none");
    emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
    good_run(config);
  }
}

TEST(NcclBsp, T15_FencesKeepRowsBeforeTheirSignal) {
  for (const char* scope : kScopes) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) good_run(large_rows(scope, "none", seed));
  }
}

// A signal comes from the core that put the rows: where the fabric orders the puts of a core, a
// fence adds nothing.
TEST(NcclBsp, T15_WithoutFencesOnlyTheOrderOfACoreHelps) {
  constexpr std::uint64_t kSeeds = 20;
  std::map<std::string, std::uint64_t> caught;
  for (const char* scope : kScopes) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      caught[scope] += is_caught(large_rows(scope, "skip-fence", seed)) ? 1 : 0;
    }
  }
  EXPECT_EQ(caught["DEVICE_PAIR"], 0u);
  EXPECT_EQ(caught["CORE_PAIR"], 0u);
  EXPECT_EQ(caught["NONE"], kSeeds);
}

TEST(NcclBsp, T15_CountsThatNobodyWaitedForAreCaught) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_TRUE(is_caught(large_rows("DEVICE_PAIR", "skip-wait", seed))) << seed;
  }
}

TEST(NcclBsp, T18_TheScopeOfFencesChangesTimesAlone) {
  std::map<std::string, Result> results;
  for (const char* scope : kScopes) {
    RunConfig config = large_rows(scope, "none");
    config.adversary = false;
    results[scope] = good_run(config);
  }
  EXPECT_EQ(results["NONE"].output_digest(), results["DEVICE_PAIR"].output_digest());
  EXPECT_EQ(results["CORE_PAIR"].output_digest(), results["DEVICE_PAIR"].output_digest());
  EXPECT_GT(latency(results["NONE"], 0), latency(results["DEVICE_PAIR"], 0));
  EXPECT_EQ(results["CORE_PAIR"].counters().at("drains"), 0);
  EXPECT_GT(results["NONE"].counters().at("drains"), 0);
}

TEST(NcclBsp, T21_AnyNumberOfCores) {
  std::string digest;
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u, 48u}) {
    const std::string bytes =
        good_run(small_run("nccl-bsp", 4, cores, make_workload(8, 2, 6))).output_digest();
    if (digest.empty()) digest = bytes;
    EXPECT_EQ(bytes, digest) << cores;
  }
}

// Signals carry the number of their call, in 32 bits.
TEST(NcclBsp, T24_NumbersOfCallsThatWrap) {
  const std::string digest = good_run(bsp()).output_digest();
  for (const bool adversary : {false, true}) {
    RunConfig config = bsp({{"algorithm.first_call", "4294967294"}});
    config.adversary = adversary;
    EXPECT_EQ(good_run(config).output_digest(), digest);
    config.workload.set_jitter_ns(50'000);
    config.iterations = 8;
    good_run(config);
  }
}

TEST(NcclBsp, T25_EverybodySendsToOneDevice) {
  const Result even = good_run(small_run("nccl-bsp", 12, 4, make_workload(24, 2, 16, 1024, 8)));
  const Workload hot = routed(make_workload(24, 2, 16, 1024, 8), {{6, 7}, {7, 6}});
  RunConfig config = small_run("nccl-bsp", 12, 4, hot);
  const Result incast = good_run(config);
  EXPECT_GT(latency(incast, 0), 1.5 * latency(even, 0));
  config.adversary = true;
  good_run(config);
}

TEST(NcclBsp, T26_OneTwoAndMixedTiers) {
  for (const char* placement : {"packed", "spread", "0,1,16,17,32,5"}) {
    for (const bool adversary : {false, true}) {
      RunConfig config = shipped_run("cm384", "nccl-bsp", 6);
      config.placement = placement;
      config.iterations = 3;
      config.adversary = adversary;
      good_run(config);
    }
  }
}

TEST(NcclBsp, T27_TheSameBytesWhateverIsLate) {
  RunConfig config = bsp({}, make_workload(8, 3, 9));
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
}

TEST(NcclBsp, T28_AMissingSignalIsNamed) {
  const std::string report =
      run_alone(bsp({{"algorithm.sabotage", "drop-signal"}, {"algorithm.channels", "1"}})).hang;
  // Device 1 is the next of device 0: the second of four peers, so core 1's.
  EXPECT_THAT(report, HasSubstr("device 1 core 0 (dispatch, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("holds 0x0, wants word equal to 0x1"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 1 (signal of channel 0)"));
  EXPECT_THAT(report, HasSubstr("device 1 core 1 (dispatch, iteration 0): waits for the next kernel"
                                " with 3 of 4 cores"));
}

}  // namespace
}  // namespace orrery::moe
