// DeepEP V2's kernels: what they send, that they are right by rails and directly, and what they say
// when something is missing. The common tests run them through shapes and routings; here is what is
// theirs. T numbers as in robust_routing_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig direct(std::uint32_t devices, std::uint32_t cores, const Workload& workload) {
  RunConfig config = small_run("deepep-v2", devices, cores, workload);
  config.settings = {{"algorithm.form", "direct"}};
  return config;
}

// Nodes of 8 on NICs, cores few enough for channels to have several tokens.
RunConfig on_nodes(std::uint32_t devices, Settings settings = {},
                   const Workload& workload = make_workload(32, 4, 24)) {
  settings.emplace_back("device.cores", "8");
  RunConfig config = shipped_run("h200-roce", "deepep-v2", devices, settings, workload);
  config.iterations = 3;
  return config;
}

// Both tokens of a device name two experts of device 1 and one of device 3.
Workload twice_on_a_device() { return routed(make_workload(8, 3, 2), {{2, 6, 3}, {3, 2, 7}}); }

TEST(DeepEpV2, ATokenGoesToADeviceOnce) {
  const auto counters = good_run(direct(4, 4, twice_on_a_device())).counters();
  // By iteration: two rows for each of two tokens there and back, and counts to every device.
  EXPECT_EQ(counters.at("puts"), 3 * 4 * (2 * 2 * 2 + 4));
}

TEST(DeepEpV2, WithoutPreReductionEveryChoiceComesBack) {
  RunConfig config = direct(4, 4, twice_on_a_device());
  config.settings.emplace_back("algorithm.allow_multiple_reduction", "false");
  const auto counters = good_run(config).counters();
  EXPECT_EQ(counters.at("puts"), 3 * 4 * (2 * 2 + 2 * 3 + 4));
}

// The two trees round differently: each is checked to the bit against its own.
TEST(DeepEpV2, PreReductionIsAnotherSum) {
  RunConfig config = direct(4, 4, make_workload(8, 4, 9));
  const std::string added = good_run(config).output_digest();
  config.settings.emplace_back("algorithm.allow_multiple_reduction", "false");
  EXPECT_NE(good_run(config).output_digest(), added);
}

TEST(DeepEpV2, ByRailsATokenCrossesANicOncePerNode) {
  const Workload workload = routed(make_workload(32, 4, 4), {{0, 16, 17, 31}});
  const Result result = good_run(on_nodes(16, {}, workload));
  // Every device sends its 4 tokens to its own node and to the other one, and all of them back.
  const Result plain = good_run(on_nodes(16, {{"algorithm.form", "direct"}}, workload));
  EXPECT_THAT(result.notes(), testing::Contains(HasSubstr("by rails between 2 groups of 8")));
  EXPECT_THAT(plain.notes(), testing::Contains(HasSubstr("direct")));
  EXPECT_NE(result.output_digest(), plain.output_digest());  // another tree
  // By iteration, device and token: two rows to rails, three on to members, three sums back to
  // their forwarders, two home; and a device's counts to its rails and lanes.
  EXPECT_EQ(result.counters().at("puts"), 3 * 16 * (4 * (2 + 3 + 3 + 2) + 2 + 8));
}

TEST(DeepEpV2, ByRailsInEveryShape) {
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u}) {
    for (const char* reduction : {"true", "false"}) {
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        RunConfig config = small_run("deepep-v2", 6, cores, make_workload(13, 3, 17));
        config.settings = {{"algorithm.group", "2"},
                           {"algorithm.allow_multiple_reduction", reduction}};
        config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
        config.adversary = true;
        config.seed = seed;
        good_run(config);
      }
    }
  }
}

TEST(DeepEpV2, T14_NoOrderOfTheFabricIsNeeded) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      RunConfig config = direct(4, 4, make_workload(8, 2, 8, 1024, 8));
      emu::set_field(config.machine, "fabric.order_scope", scope, "test");
      emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
      config.adversary = true;
      config.seed = seed;
      good_run(config);
    }
  }
}

TEST(DeepEpV2, T15_WordsOfProgressAreOfEightBytes) {
  RunConfig config = small_run("deepep-v2", 4, 4, make_workload(8, 2, 8));
  config.settings = {{"algorithm.group", "2"}};
  config.machine.mutable_fabric()->set_atomic_block_bytes(8);
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.adversary = true;
  for (config.seed = 1; config.seed <= 8; ++config.seed) good_run(config);
}

TEST(DeepEpV2, T21_AnyNumberOfCoresAndMovers) {
  std::string digest;
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u, 48u}) {
    for (const char* sms : {"0", "1", "7"}) {
      RunConfig config = direct(4, cores, make_workload(8, 2, 6));
      config.settings.emplace_back("algorithm.sms", sms);
      const std::string bytes = good_run(config).output_digest();
      if (digest.empty()) digest = bytes;
      EXPECT_EQ(bytes, digest) << cores << " " << sms;
    }
  }
}

TEST(DeepEpV2, T27_TheSameBytesInAnyOrderOfArrival) {
  RunConfig config = small_run("deepep-v2", 4, 5, make_workload(8, 3, 9));
  config.settings = {{"algorithm.group", "2"}};
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
}

// All devices route alike, so that none is late for its epilogue.
TEST(DeepEpV2, DeferredEpiloguesAreTheSameWork) {
  Workload workload = make_workload(8, 2, 8);
  workload.mutable_gate()->set_kind(Gate::BALANCED);
  RunConfig config = direct(4, 4, workload);
  config.iterations = 1;
  config.alignment = devices::Alignment::kOperations;
  config.machine.mutable_device()->set_launch_ns(500);
  const Result within = good_run(config);
  config.settings.emplace_back("algorithm.epilogue", "deferred");
  const Result deferred = good_run(config);
  ASSERT_EQ(deferred.operations_size(), 5);
  const auto us = [](const Result& result, int operation) {
    return result.operations(operation).latency_us().max();
  };
  EXPECT_GT(us(deferred, 1), 0.5);
  EXPECT_GT(us(deferred, 4), 0.5);
  EXPECT_NEAR(us(within, 0), us(deferred, 0) + us(deferred, 1), 1e-6);
  EXPECT_NEAR(us(within, 2), us(deferred, 3) + us(deferred, 4), 1e-6);
}

TEST(DeepEpV2, TheHostReadsCountsWhileRowsAreOnTheirWay) {
  const auto dispatch_us = [](const char* sync, double host_ns) {
    RunConfig config = direct(4, 4, make_workload(8, 2, 6));
    config.alignment = devices::Alignment::kOperations;
    config.settings.emplace_back("algorithm.host_sync", sync);
    config.machine.mutable_device()->set_host_sync_ns(host_ns);
    return good_run(config).operations(0).latency_us().max();
  };
  EXPECT_DOUBLE_EQ(dispatch_us("true", 0), dispatch_us("false", 100'000));
  const double longer = dispatch_us("true", 100'000) - dispatch_us("true", 0);
  EXPECT_GT(longer, 50);
  EXPECT_LT(longer, 100);  // some of it passes while rows come
}

// --- What goes wrong, and how it is told ---

TEST(DeepEpV2, T28_AChannelWhoseLastWordIsMissingIsNamed) {
  RunConfig config = on_nodes(16, {{"algorithm.sabotage", "drop-tail"}});
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("further rows, or the last word of this call"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 0 (progress of channel 0)"));
  EXPECT_THAT(report, HasSubstr("device 8 core 3 (dispatch, iteration 0)"));
}

TEST(DeepEpV2, AMissingFlushIsCaught) {
  RunConfig config = direct(4, 4, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  config.settings.emplace_back("algorithm.sabotage", "skip-flush");
  EXPECT_GE(times_caught(config, 8), 4);
  config.check = true;
  config.iterations = 1;
  const RunOutcome outcome = run_alone(config);
  ASSERT_FALSE(outcome.result.check().findings().empty());
}

TEST(DeepEpV2, CleanUnderTheCheck) {
  for (const char* group : {"0", "2"}) {
    for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
      for (const char* reduction : {"true", "false"}) {
        RunConfig config = small_run("deepep-v2", 4, 5, make_workload(8, 3, 8));
        config.settings = {{"algorithm.group", group},
                           {"algorithm.allow_multiple_reduction", reduction}};
        emu::set_field(config.machine, "fabric.order_scope", scope, "test");
        expect_clean(config);
      }
    }
  }
}

}  // namespace
}  // namespace orrery::moe
