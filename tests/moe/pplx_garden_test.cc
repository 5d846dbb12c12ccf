// pplx-garden's all-to-all: private rows and overflow, what it sends, that it relies on no order,
// and what it says when something is missing. T numbers as in robust_routing_test.cc, which runs it
// through the other shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

// Four devices on two nodes.
RunConfig run_with(const Settings& settings, const Workload& workload, std::uint32_t cores = 4) {
  RunConfig config = small_run("pplx-garden", 4, cores, workload);
  config.settings = settings;
  return config;
}
Settings private_rows(int rows) { return {{"algorithm.max_private_tokens", std::to_string(rows)}}; }

RunConfig unordered(const Settings& settings, std::uint64_t seed) {
  RunConfig config = run_with(settings, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  config.adversary = true;
  config.seed = seed;
  return config;
}

// Tokens of each device: two rows for each of the others and for itself.
Workload even_rows() { return routed(make_workload(8, 2, 4), {{0, 2}, {1, 3}, {4, 6}, {5, 7}}); }

TEST(PplxGarden, SendsCountsToAllAndOneSlabToEachDeviceOfOtherNodes) {
  const Result result = good_run(run_with({}, even_rows()));
  const auto& counters = result.counters();
  // Each call and device. Dispatch: counts to 3 devices, slabs to the 2 of the other node, 2 rows
  // to its neighbour. Combine: 2 slabs, 2 rows to its neighbour and 2 to itself.
  EXPECT_EQ(counters.at("puts"), 3 * 4 * (3 + 2 + 2 + 2 + 4));
  // That each core's rows are there to be sent, and that each device is through with a call.
  EXPECT_EQ(counters.at("atomics"), 3 * 2 * 4 * (3 + 3));
  // The worker tells its cores what comes, and that it is here (that alone in combine).
  EXPECT_EQ(counters.at("signals"), 3 * 4 * (2 + 1));
  EXPECT_EQ(counters.at("fences"), 0);
  EXPECT_EQ(counters.at("drains"), 0);
  EXPECT_EQ(counters.at("gets"), 0);
}

// What has no private slot follows when counts are known: one more slab to each device of the other
// node; the neighbour hears that it may fetch, and does.
TEST(PplxGarden, RowsWithoutAPrivateSlotFollow) {
  const auto plain = good_run(run_with({}, even_rows()));
  const auto spilled = good_run(run_with(private_rows(1), even_rows()));
  EXPECT_EQ(spilled.output_digest(), plain.output_digest());
  const auto more = [&](const char* counter) {
    return spilled.counters().at(counter) - plain.counters().at(counter);
  };
  EXPECT_EQ(more("puts"), 3 * 4 * (2 - 1));  // a slab more for 2, a row less to the neighbour
  EXPECT_EQ(more("atomics"), 3 * 4);         // it may fetch
  EXPECT_EQ(spilled.counters().at("gets"), 3 * 4);
}

// As many private rows as there are, one less, one more; uneven, none, all to one.
TEST(PplxGarden, AnyNumberOfPrivateRowsGivesTheSameBytes) {
  const std::vector<Workload> workloads = {
      make_workload(8, 2, 9), make_workload(7, 3, 5),
      routed(make_workload(8, 2, 6), {{6, 7}, {7, 6}}),
      routed(make_workload(8, 2, 3), {{-1, -1}, {4, -1}, {-1, 0}})};
  for (const Workload& workload : workloads) {
    std::string digest;
    for (const int rows : {1, 2, 3, 5, 11, 12, 13, 256}) {
      const std::string bytes = good_run(run_with(private_rows(rows), workload)).output_digest();
      if (digest.empty()) digest = bytes;
      EXPECT_EQ(bytes, digest) << rows;
    }
  }
}

// Counts and private rows are on their way at once: with all rows private, that saves a way.
TEST(PplxGarden, PrivateRowsDoNotWaitForCounts) {
  const auto latency = [](int rows) {
    RunConfig config = run_with(private_rows(rows), make_workload(8, 2, 8, 1024, 8));
    return good_run(config).operations(0).latency_us().max();
  };
  EXPECT_LT(latency(256) + 1, latency(1));
}

TEST(PplxGarden, T14_T15_NoOrderOfAnyKindIsNeeded) {
  for (const int rows : {256, 2}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      RunConfig config = unordered(private_rows(rows), seed);
      if (seed % 3 == 0) emu::set_field(config.machine, "fabric.ack_at", "RECEIVED", "test");
      good_run(config);
    }
    RunConfig config = unordered(private_rows(rows), 1);
    config.adversary = false;
    config.check = true;
    const RunOutcome outcome = run_alone(config);
    EXPECT_TRUE(outcome.result.verified());
    EXPECT_TRUE(outcome.result.check().findings().empty());
  }
}

TEST(PplxGarden, T15_ACountApartFromItsWriteIsCaught) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    caught += is_caught(unordered({{"algorithm.sabotage", "split-signal"}}, seed)) ? 1 : 0;
  }
  EXPECT_GE(caught, 10);
  RunConfig config = unordered({{"algorithm.sabotage", "split-signal"}}, 1);
  config.adversary = false;
  config.check = true;
  const RunOutcome outcome = run_alone(config);
  ASSERT_FALSE(outcome.result.check().findings().empty());
  EXPECT_THAT(outcome.result.check().findings(0).text(), HasSubstr("put by device"));
}

TEST(PplxGarden, T21_AnyNumberOfCores) {
  std::string digest;
  for (const std::uint32_t cores : {1u, 2u, 3u, 5u, 16u, 48u}) {
    const std::string bytes =
        good_run(run_with(private_rows(3), make_workload(8, 2, 6), cores)).output_digest();
    if (digest.empty()) digest = bytes;
    EXPECT_EQ(bytes, digest) << cores;
  }
}

TEST(PplxGarden, T28_AMissingCountIsNamed) {
  const std::string report =
      run_alone(run_with({{"algorithm.sabotage", "drop-signal"}}, even_rows())).hang;
  // The first slab of device 0, to device 2.
  EXPECT_THAT(report, HasSubstr("device 2 core 0 (dispatch, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("holds 0x1, wants word equal to 0x2"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0, 1: 2 writes in all"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 2 core 0 (worker)"));
}

}  // namespace
}  // namespace orrery::moe
