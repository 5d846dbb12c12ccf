// mori: reservations at the receiver, and what its parts rest on. What all algorithms must do is in
// the common tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig small(const std::string& sabotage = "none", std::uint32_t tokens = 9) {
  RunConfig config = small_run("mori", 4, 3, make_workload(8, 3, tokens));
  config.settings = {{"algorithm.sabotage", sabotage}};
  config.iterations = 5;
  return config;
}

// One addition at each destination and block, however many tokens there are.
TEST(Mori, ReservesOncePerBlockAndDestination) {
  for (const std::uint32_t tokens : {3u, 9u, 24u}) {
    RunConfig config = small("none", tokens);
    config.workload.set_top_k(8);  // every token goes everywhere
    config.iterations = 2;
    const Result result = good_run(config);
    EXPECT_EQ(result.counters().at("atomics"), 4 * 3 * 4 * 2) << tokens;
    // A message per token and destination, and nothing else but words.
    EXPECT_EQ(result.counters().at("puts"), 4.0 * tokens * 4 * 2) << tokens;
  }
}

// Two tokens of one block, one of the other: room for all of them lies without a gap.
TEST(Mori, BlocksWithoutTokensReserveNothing) {
  RunConfig config = small("none", 1);
  config.workload.set_top_k(8);
  config.iterations = 1;
  const Result result = good_run(config);
  EXPECT_EQ(result.counters().at("atomics"), 4 * 1 * 4);
}

TEST(Mori, TakesARoundTripBeforeTheFirstRow) {
  const auto latency = [](const char* up) {
    RunConfig config = small();
    config.machine.mutable_fabric()->mutable_clos()->mutable_device_link()->set_latency_ns(
        std::stod(up));
    config.machine.mutable_device()->set_outstanding_stores(0);  // none waits for another
    config.iterations = 1;
    return good_run(config).operations(0).latency_us().min();
  };
  // Reservation, answer and the words at the end, each over two such links; rows are on their way
  // while the words are, and here a release waits for no acknowledgement.
  EXPECT_NEAR(latency("1500") - latency("500"), 3 * 2 * 1.0, 0.2);
}

TEST(Mori, OnShippedMachines) {
  for (const char* topology :
       {"mi300x-8", "gb200-nvl72", "hgx-h100", "cm384", "tpu7x", "trn2", "ub-mesh"}) {
    SCOPED_TRACE(topology);
    RunConfig config = shipped_run(topology, "mori", 8);
    config.iterations = 3;
    good_run(config);
  }
}

TEST(Mori, IsOfOneNode) {
  good_run(shipped_run("h100-ib", "mori", 8));
  try {
    run_alone(shipped_run("h100-ib", "mori", 9));
    FAIL() << "across a NIC";
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("devices of one node for mori"));
  }
}

RunConfig against_adversary(const std::string& sabotage, std::uint64_t seed) {
  RunConfig config = small(sabotage, 24);
  config.iterations = 10;
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.adversary = true;
  config.seed = seed;
  return config;
}

TEST(Mori, SabotageIsCaught) {
  for (const char* sabotage : {"skip-release", "skip-arrival", "keep-offset", "skip-meeting"}) {
    std::uint64_t caught = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      caught += is_caught(against_adversary(sabotage, seed)) ? 1 : 0;
      good_run(against_adversary("none", seed));
    }
    EXPECT_EQ(caught, 10u) << sabotage;
  }
}

TEST(Mori, ADroppedWordEndsInAHangReport) {
  const std::string report = run_alone(small("drop-signal")).hang;
  EXPECT_THAT(report, HasSubstr("device 3 core 0 (dispatch, iteration 0)"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 0 (rows sent)"));
}

}  // namespace
}  // namespace orrery::moe
