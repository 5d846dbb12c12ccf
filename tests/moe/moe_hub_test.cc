#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig hub(const Workload& workload, Settings settings = {}, std::uint32_t devices = 4) {
  RunConfig config = small_run("moe-hub", devices, 3, workload);
  config.settings = std::move(settings);
  return config;
}

// Rows come back to the token and the choice that they were sent for, added in ascending k: the
// same bytes as any other algorithm's whose order that is, whichever parts the hub has.
TEST(MoeHub, ItsPartsDoNotChangeTheBytes) {
  std::string digest;
  for (const char* variant : {"allocation", "packets", "availability", "all"}) {
    const Result result =
        good_run(hub(make_workload(13, 3, 17, 300, 8), {{"algorithm.hub", variant}}));
    if (digest.empty()) digest = result.output_digest();
    EXPECT_EQ(result.output_digest(), digest) << variant;
  }
}

TEST(MoeHub, FewerAndLargerPackets) {
  const auto packets = [](const char* variant) {
    RunConfig config = hub(make_workload(8, 2, 8, 512, 8), {{"algorithm.hub", variant}});
    config.iterations = 1;
    return good_run(config).counters().at("hub_packets");
  };
  // There and back of 64 rows: a row of 1,024 bytes with 16 of its name, and its word.
  EXPECT_EQ(packets("all"), 64 * (2 + 2));
  EXPECT_EQ(packets("allocation"), 64 * (10 + 9));
}

TEST(MoeHub, T2T3_AllTokensToOneExpert) {
  for (const char* variant : {"allocation", "all"}) {
    RunConfig config =
        hub(routed(make_workload(8, 1, 150, 64, 8), {{5}}), {{"algorithm.hub", variant}});
    good_run(config);  // several blocks, the last one of part of the rows
    config.adversary = true;
    good_run(config);
  }
}

TEST(MoeHub, T1_DevicesWithoutTokens) {
  Workload workload = make_workload(8, 2, 6);
  for (const std::uint32_t tokens : {0u, 5u, 0u, 1u}) workload.add_tokens_per_device(tokens);
  good_run(hub(workload));
  workload.mutable_gate()->set_masked_share(1);
  good_run(hub(workload));
}

// An END may come before the rows that it counts.
TEST(MoeHub, EndBeforeData) {
  RunConfig config = hub(make_workload(8, 2, 12));
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.adversary = true;
  for (config.seed = 1; config.seed <= 20; ++config.seed) good_run(config);
  // Whoever takes END for the rows themselves is caught, also where they happen to be there.
  config.settings = {{"algorithm.sabotage", "trust-end"}};
  EXPECT_GE(times_caught(config, 20), 1u);
  config.adversary = false;
  config.check = true;
  EXPECT_NE(findings_of(run_alone(config).result), "");
}

TEST(MoeHub, ALostEndNamesWhoIsWaitedFor) {
  RunConfig config = hub(make_workload(8, 2, 8), {{"algorithm.sabotage", "drop-end"}});
  const std::string hang = run_alone(config).hang;
  EXPECT_THAT(hang, HasSubstr("expected writer: device 0 (END of its rows for expert 0)"));
}

TEST(MoeHub, AFullRegionRefusesRowsAndSaysSo) {
  RunConfig config = hub(routed(make_workload(8, 1, 8), {{3}}), {{"algorithm.region_rows", "20"}});
  config.iterations = 1;
  const RunOutcome outcome = run_alone(config);
  EXPECT_THAT(outcome.hang, HasSubstr("rows of this core were refused: a region holds 20"));
  config.settings = {{"algorithm.region_rows", "32"}};
  good_run(config);
}

TEST(MoeHub, NeedsAHub) {
  RunConfig config = shipped_run("tiny", "moe-hub", 4, {}, make_workload(8, 2, 4));
  EXPECT_THROW(run_alone(config), emu::ConfigError);
}

}  // namespace
}  // namespace orrery::moe
