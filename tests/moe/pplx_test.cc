// pplx-kernels: what they send, that they rely on no order of any kind, and what they say when
// something is missing. T numbers as in robust_routing_test.cc, which runs them through the other
// shapes. Not here: T20 (no ring queues), T22 and T23 (a run has one communicator, no device dies),
// T24 (calls are counted in 32 bits, rows per call).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

// Rows of many blocks on a fabric that orders nothing, so that the adversary can hold some back.
RunConfig unordered(const Settings& settings, std::uint64_t seed = 1) {
  RunConfig config = small_run("pplx", 4, 4, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  config.settings = settings;
  config.adversary = true;
  config.seed = seed;
  return config;
}

RunConfig sabotaged(const std::string& how, const Workload& workload) {
  RunConfig config = small_run("pplx", 4, 4, workload);
  config.settings = {{"algorithm.sabotage", how}};
  return config;
}

double latency(const Result& result, int operation) {
  return result.operations(operation).latency_us().max();
}

TEST(Pplx, SendsARowPerChoiceAndACountPerExpertAndNeedsNoFence) {
  constexpr std::uint32_t kDevices = 4;
  constexpr std::uint32_t kExperts = 8;
  for (const char* scope : {"DEVICE_PAIR", "NONE"}) {
    RunConfig config = small_run("pplx", kDevices, 3, make_workload(kExperts, 2, 6));
    emu::set_field(config.machine, "fabric.order_scope", scope, "test");
    const auto counters = good_run(config).counters();
    const std::uint32_t entries = kDevices * 6 * 2;
    EXPECT_EQ(counters.at("puts"), 3 * 2 * entries);  // each counts itself
    // A count for every expert, and from every device to every other that it is through with a
    // call.
    EXPECT_EQ(counters.at("signals"), 3 * kDevices * (kExperts + 2 * (kDevices - 1)));
    EXPECT_EQ(counters.at("fences"), 0);
    EXPECT_EQ(counters.at("drains"), 0);
    // Before rows are copied and before peers are told, and in combine before peers are told.
    EXPECT_EQ(counters.at("core_barriers"), 3 * kDevices * 3);
  }
}

TEST(Pplx, T2_CountsOfZeroAreSentToo) {
  const Result result =
      good_run(small_run("pplx", 4, 3, routed(make_workload(8, 2, 4), {{-1, -1}})));
  EXPECT_EQ(result.counters().at("puts"), 0);
  EXPECT_EQ(result.counters().at("signals"), 3 * 4 * (8 + 2 * 3));
}

// Whatever is delayed, and whatever the fabric orders: that is its whole contract.
TEST(Pplx, T14_T15_NoOrderOfAnyKindIsNeeded) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RunConfig config = unordered({}, seed);
    if (seed % 2 == 0) emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
    if (seed % 3 == 0) emu::set_field(config.machine, "fabric.ack_at", "RECEIVED", "test");
    good_run(config);
  }
  RunConfig config = unordered({});
  config.adversary = false;
  config.check = true;
  const RunOutcome outcome = run_alone(config);
  EXPECT_TRUE(outcome.result.verified());
  EXPECT_TRUE(outcome.result.check().findings().empty());
}

// Without the count in the put itself, rows are late for theirs.
TEST(Pplx, T15_ASignalApartFromItsPutIsCaught) {
  RunConfig config = unordered({{"algorithm.sabotage", "split-signal"}});
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    config.seed = seed;
    caught += is_caught(config) ? 1 : 0;
  }
  EXPECT_GE(caught, 12);
  config.adversary = false;
  config.check = true;
  const RunOutcome outcome = run_alone(config);
  ASSERT_FALSE(outcome.result.check().findings().empty());
  EXPECT_THAT(outcome.result.check().findings(0).text(), HasSubstr("give by device"));
}

TEST(Pplx, T21_AnyNumberOfCores) {
  std::string digest;
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u, 48u}) {
    const std::string bytes =
        good_run(small_run("pplx", 4, cores, make_workload(8, 2, 6))).output_digest();
    if (digest.empty()) digest = bytes;
    EXPECT_EQ(bytes, digest) << cores;
  }
}

TEST(Pplx, T25_EverybodySendsToOneDevice) {
  const Result even = good_run(small_run("pplx", 12, 4, make_workload(24, 2, 16, 1024, 8)));
  const Workload hot = routed(make_workload(24, 2, 16, 1024, 8), {{6, 7}, {7, 6}});
  RunConfig config = small_run("pplx", 12, 4, hot);
  EXPECT_GT(latency(good_run(config), 0), 1.5 * latency(even, 0));
  config.adversary = true;
  good_run(config);
}

TEST(Pplx, T26_OneTwoAndMixedTiers) {
  for (const char* placement : {"packed", "spread", "0,1,16,17,32,5"}) {
    for (const bool adversary : {false, true}) {
      RunConfig config = shipped_run("cm384", "pplx", 6);
      config.placement = placement;
      config.iterations = 3;
      config.adversary = adversary;
      good_run(config);
    }
  }
}

TEST(Pplx, T27_TheSameBytesInAnyOrderOfArrival) {
  RunConfig config = small_run("pplx", 4, 4, make_workload(8, 3, 9));
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
}

TEST(Pplx, T28_AMissingSignalIsNamed) {
  const Workload workload = routed(
      make_workload(8, 2, 4), {{6, 1}, {6, 2}, {6, 3}, {6, 4}, {0, 1}, {0, 2}, {0, 3}, {0, 4}});
  const std::string report = run_alone(sabotaged("drop-signal", workload)).hang;
  // Expert 6 is the first of device 3: its list from device 0 is number 0 of 8, so core 0's.
  EXPECT_THAT(report, HasSubstr("device 3 core 0 (dispatch, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("holds 0x3, wants word equal to 0x4"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0, each core that sends some of its 4 "
                                "rows for expert 6"));
}

// As the source's: a row of every choice is awaited, and a masked one never comes.
TEST(Pplx, T4_WaitingForMaskedChoicesHangsAndSaysSo) {
  good_run(sabotaged("wait-top-k", make_workload(8, 2, 8)));
  const Workload masked = routed(make_workload(8, 2, 1), {{5, 2}, {6, -1}, {0, 1}, {0, 3}});
  good_run(sabotaged("none", masked));
  const std::string report = run_alone(sabotaged("wait-top-k", masked)).hang;
  EXPECT_THAT(report, HasSubstr("device 1 core 0 (combine, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("holds 0x1, wants word equal to 0x2"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 3 (rows of 2 choices of token 0, 1 of "
                                "which are masked)"));
}

// A device that does not wait for its peers tells them of the next call before they have read what
// it said of this one. Here none gets rows of another, which would make it wait.
TEST(Pplx, T11_NotWaitingForPeersIsCaught) {
  const Workload own = routed(make_workload(8, 2, 1), {{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  for (const char* how : {"none", "skip-wait"}) {
    RunConfig config = sabotaged(how, own);
    config.iterations = 4;
    config.check = true;
    const RunOutcome outcome = run_alone(config);
    EXPECT_EQ(outcome.result.check().findings().empty(), how == std::string("none"));
  }
}

TEST(Pplx, TheHalvesMayBeTwoLaunches) {
  const auto launch = [](const Result& result, int operation) {
    return result.operations(operation).core_time_us().at("launch");
  };
  RunConfig config = small_run("pplx", 4, 4, make_workload(8, 2, 8));
  const Result together = good_run(config);
  config.settings = {{"algorithm.split", "true"}};
  const Result apart = good_run(config);
  EXPECT_EQ(apart.output_digest(), together.output_digest());
  for (const int operation : {0, 2}) {
    EXPECT_DOUBLE_EQ(launch(together, operation), 1);
    EXPECT_DOUBLE_EQ(launch(apart, operation), 2);
  }
}

}  // namespace
}  // namespace orrery::moe
