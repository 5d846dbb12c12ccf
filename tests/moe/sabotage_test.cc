// Algorithms broken on purpose, and what Orrery says about them. A check that never fails proves
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig sabotaged(const std::string& how, const Workload& workload, std::uint64_t seed = 1) {
  RunConfig config = small_run("cann-bsp", 4, 4, workload);
  config.settings = {{"algorithm.sabotage", how}};
  config.seed = seed;
  return config;
}

TEST(Sabotage, NoneIsFine) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    good_run(sabotaged("none", make_workload(8, 2, 8), seed));
}

// The status of the last expert (7, on device 3) from device 0 never leaves.
TEST(Sabotage, DroppedStatusEndsInAHangReport) {
  for (const bool adversary : {false, true}) {
    RunConfig config = sabotaged("drop-status", make_workload(8, 2, 8));
    config.adversary = adversary;
    const std::string report = run_alone(config).hang;
    // Device 3 has statuses 0..7 (experts 6 and 7, sources 0..3), two for each of its four cores:
    // number 4 is that of expert 7 from device 0 and belongs to core 2.
    EXPECT_THAT(report, HasSubstr("device 3 core 2 (dispatch, iteration 0): polls address 0x"));
    EXPECT_THAT(report, HasSubstr("(slot 0 of 2): holds 0x0 0x0 "));
    EXPECT_THAT(report, HasSubstr("wants status with flag 1.0"));
    EXPECT_THAT(report, HasSubstr("last writer: none"));
    EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 3 (status of expert 7)"));
    // Its other cores wait at the barrier; every other device waits for rows of device 3.
    EXPECT_THAT(report, HasSubstr("device 3 core 0 (dispatch, iteration 0): waits in the core "
                                  "barrier with 3 of 4 cores"));
    EXPECT_THAT(report, HasSubstr("expected writer: device 3 (row of expert "));
  }
}

// The statuses of a first call stay in memory's history: the report names their writer.
TEST(Sabotage, HangReportNamesTheLastWriter) {
  // With three cores at the first call and four at the second the half of the window that core 3
  // uses is the other one: it polls slots that were written, and cleared, before.
  Workload workload = make_workload(8, 2, 8);
  RunConfig config = small_run("cann-bsp", 4, 4, workload);
  config.settings = {{"algorithm.cores", "4,4,3"}};
  config.iterations = 8;
  const std::string report = run_alone(config).hang;
  ASSERT_NE(report, "");
  EXPECT_THAT(report, HasSubstr("last writer: device "));
}

// Without the SyncAll before the statuses a core's status may be issued, and so be visible, before
// another core's rows: whoever believes it reads rows that are not there. Here the last core has
// twice as many rows to send as the others, which are early with their statuses.
RunConfig skipped_syncall(std::uint64_t seed) {
  std::vector<std::vector<int>> tokens(32, {-1, -1});
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    if (token < 24 && token % 8 < 4) continue;
    const int expert = static_cast<int>(token);
    tokens[token] = {expert % 8, (expert + 3) % 8};
  }
  RunConfig config = sabotaged("skip-syncall", routed(make_workload(8, 2, 32, 1024), tokens), seed);
  config.adversary = true;
  config.iterations = 2;
  return config;
}

TEST(Sabotage, SkippedSyncAllIsCaughtUnderTheAdversary) {
  constexpr std::uint64_t kSeeds = 20;
  std::uint64_t caught = 0;
  std::uint64_t torn = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RunOutcome outcome = run_alone(skipped_syncall(seed));
    caught += !outcome.hang.empty() || !outcome.result.verified() ? 1 : 0;
    torn += failures_of(outcome.result).find("torn read on device ") != std::string::npos ? 1 : 0;
    if (!outcome.hang.empty()) {
      EXPECT_THAT(outcome.hang, HasSubstr("before that: ")) << seed;
    }
  }
  EXPECT_EQ(caught, kSeeds);
  EXPECT_GE(torn, kSeeds / 2);
}

TEST(Sabotage, TheSameRoutingPassesWithSyncAll) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RunConfig config = skipped_syncall(seed);
    config.settings.clear();
    good_run(config);
  }
}

TEST(Sabotage, FailureReplaysFromItsSeed) {
  const RunOutcome first = run_alone(skipped_syncall(3));
  const RunOutcome second = run_alone(skipped_syncall(3));
  EXPECT_TRUE(!first.hang.empty() || !first.result.verified());
  EXPECT_EQ(first.hang, second.hang);
  EXPECT_EQ(first.result.digest(), second.result.digest());
  EXPECT_EQ(failures_of(first.result), failures_of(second.result));
}

TEST(Sabotage, WrongSlotIsNotVerified) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RunConfig config = sabotaged("wrong-slot", make_workload(8, 2, 8), seed);
    config.iterations = 1;
    const RunOutcome outcome = run_alone(config);
    EXPECT_EQ(outcome.hang, "");
    EXPECT_FALSE(outcome.result.verified());
    EXPECT_THAT(failures_of(outcome.result), HasSubstr("dispatch iteration 0: expert "));
  }
}

TEST(Sabotage, WrongSlotIsCaughtInManyCallsToo) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_TRUE(is_caught(sabotaged("wrong-slot", make_workload(8, 2, 8), seed))) << seed;
  }
}

}  // namespace
}  // namespace orrery::moe
