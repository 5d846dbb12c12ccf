// Overlapped baselines beyond what every fused layer is tested for: what tutel, fastermoe and comet
// send, in what order they do things, and what overlap gains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emu/errors.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::Contains;
using testing::HasSubstr;

RunConfig run_of(const std::string& algorithm, const Settings& settings,
                 const Workload& workload = make_workload(8, 2, 8), std::uint32_t cores = 4) {
  RunConfig config = small_run(algorithm, 4, cores, workload);
  config.settings = settings;
  config.iterations = 1;
  return config;
}

double counter(const Result& result, const std::string& name) { return result.counters().at(name); }

// Every device has two rows for every expert.
Workload even() {
  return routed(make_workload(8, 2, 8),
                {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {1, 0}, {3, 2}, {5, 4}, {7, 6}});
}

// --- Tutel ---

// Capacity 2, in two splits of one row for each of two experts: 160 bytes out and 128 back, to
// three peers of each device; a flag per split and direction to everybody, and a largest count.
TEST(Tutel, SendsEverySplitToEveryPeer) {
  for (const char* splits : {"1", "2"}) {
    const Result result = good_run(run_of("tutel", {{"algorithm.splits", splits}}, even()));
    const double parts = splits[0] - '0';
    EXPECT_EQ(counter(result, "puts"), 4 * 3 * 2 * parts) << splits;
    EXPECT_EQ(counter(result, "fences"), 4 * 3 * 2 * parts) << splits;
    EXPECT_EQ(counter(result, "bytes_put"),
              4 * 3 * 2 * 2 * (160 + 128) + 4 * 4 * (8 + 2 * parts * 4) +
                  (parts > 1 ? 4 * parts * 2 * 4 : 0))  // of the meetings of the team
        << splits;
  }
}

TEST(Tutel, DropsWhatIsBeyondItsCapacityAndIsTutel2dhsOutput) {
  const Workload all_to_one = routed(make_workload(8, 2, 8), {{5, 0}});
  const Settings factor{{"algorithm.capacity_factor", "1"}, {"algorithm.splits", "2"}};
  const Result result = good_run(run_of("tutel", factor, all_to_one));
  EXPECT_THAT(result.notes(), Contains(HasSubstr("48 of 64 rows were beyond the capacity of 2 per "
                                                 "expert and device, and dropped")));
}

// Padding is multiplied like rows.
TEST(Tutel, TheFullestExpertSetsTheProductsOfAll) {
  const auto time = [](const Workload& workload) {
    RunConfig config = run_of("tutel", {}, workload);
    config.machine.mutable_device()->set_matrix_tflop_per_s(0.001);
    config.machine.mutable_device()->set_tile_rows(1);
    return run_alone(config).slowest[0][0];
  };
  const auto uneven = routed(make_workload(8, 2, 8), {{0, 1}});
  const double ratio = static_cast<double>(time(uneven)) / static_cast<double>(time(even()));
  EXPECT_NEAR(ratio, 8 / 2, 0.3);
}

// --- FasterMoE ---

// One put to each peer either way, whatever the number of groups, and one of counts.
TEST(Fastermoe, SendsEachPeerItsRowsInTheStepOfItsGroup) {
  for (const char* parts : {"1", "2", "0"}) {
    const Result result = good_run(run_of("fastermoe", {{"algorithm.parts", parts}}, even()));
    EXPECT_EQ(counter(result, "puts"), 4 * 3 * 3) << parts;
    EXPECT_DOUBLE_EQ(result.operations(0).core_time_us().at("host_sync"), 5) << parts;
  }
}

TEST(Fastermoe, SaysHowManyGroupsThereAre) {
  EXPECT_THAT(good_run(run_of("fastermoe", {})).notes(), Contains(HasSubstr("4 groups")));
  EXPECT_THAT(good_run(run_of("fastermoe", {{"algorithm.parts", "3"}})).notes(),
              Contains(HasSubstr("3 groups")));
}

// --- Comet ---

// All tokens of all others, whoever wants them: T*H*(R-1) bytes, pulled; a sum of a token's rows
// from every device that has some.
TEST(Comet, GathersAllTokensAndSendsOneSumPerDevice) {
  for (const char* splits : {"1", "4"}) {
    RunConfig config = run_of("comet", {{"algorithm.column_splits", splits}}, even());
    config.machine.mutable_device()->set_tile_columns(16);
    const Result result = good_run(config);
    EXPECT_EQ(counter(result, "gets"), 4 * 3 * 8) << splits;
    EXPECT_EQ(counter(result, "bytes_got"), 4 * 3 * 8 * 128) << splits;
    // Of 8 tokens 6 have their two experts on another device: three peers with two tokens each.
    const double parts = splits[0] - '0';
    EXPECT_EQ(counter(result, "puts"), 4 * 3 + 4 * 3 * parts) << splits;
    EXPECT_EQ(result.operations(0).core_time_us().at("host_sync"), 5);
  }
}

// Tiles whose tokens are here do not wait for the rest: those of the own device's tokens alone are
// multiplied while all others are on their way.
TEST(Comet, TilesOfTokensThatAreHereDoNotWait) {
  const auto time = [](const Workload& workload, double tflop_per_s) {
    RunConfig config = run_of("comet", {}, workload, 5);
    config.machine.mutable_device()->set_tile_rows(4);
    config.machine.mutable_device()->set_matrix_tflop_per_s(tflop_per_s);
    return run_alone(config).slowest[0][0];
  };
  // Everybody's tokens go to the own experts, or to those of the device whose tokens come last.
  std::vector<std::vector<int>> own;
  std::vector<std::vector<int>> last;
  for (int device = 0; device < 4; ++device) {
    for (int token = 0; token < 16; ++token) {
      own.push_back({2 * device, 2 * device + 1});
      last.push_back({2 * ((device + 1) % 4), 2 * ((device + 1) % 4) + 1});
    }
  }
  const Workload sizes = make_workload(8, 2, 16, 1024, 64);
  const emu::Time hidden = time(routed(sizes, own), 0.5) - time(routed(sizes, own), 0);
  const emu::Time late = time(routed(sizes, last), 0.5) - time(routed(sizes, last), 0);
  EXPECT_LT(hidden, 0.8 * late);
}

// Splits are sent while others are multiplied.
TEST(Comet, SplitsOfColumnsOverlap) {
  const auto time = [](const char* splits) {
    RunConfig config = run_of("comet", {{"algorithm.column_splits", splits}},
                              make_workload(8, 2, 64, 2048, 64), 16);
    config.machine.mutable_device()->set_tile_rows(16);
    config.machine.mutable_device()->set_matrix_tflop_per_s(0.5);
    config.machine.mutable_device()->set_core_store_gb_per_s(1);
    return good_run(config).operations(0).latency_us().max();
  };
  EXPECT_LT(time("4"), 0.95 * time("1"));
}

// --- What is refused ---

TEST(OverlappedLayers, BothKindsOfCoresAreNeeded) {
  for (const auto& [algorithm, settings] : std::vector<std::pair<std::string, Settings>>{
           {"tutel", {{"algorithm.splits", "2"}, {"algorithm.comm_cores", "4"}}},
           {"tutel", {{"algorithm.splits", "0"}}},
           {"tutel", {{"algorithm.capacity_factor", "-1"}}},
           {"tutel", {{"algorithm.capacity_factor", "1e9"}}},
           {"fastermoe", {{"algorithm.comm_cores", "4"}}},
           {"comet", {{"algorithm.comm_cores", "4"}}},
           {"comet", {{"algorithm.column_splits", "0"}}}}) {
    EXPECT_THROW(run_alone(run_of(algorithm, settings)), emu::ConfigError) << algorithm;
  }
  for (const char* algorithm : {"fastermoe", "comet"}) {
    EXPECT_THROW(run_alone(run_of(algorithm, {}, make_workload(8, 2, 8), 1)), emu::ConfigError);
  }
  good_run(run_of("fastermoe", {{"algorithm.parts", "1"}}, make_workload(8, 2, 8), 1));
  good_run(run_of("tutel", {}, make_workload(8, 2, 8), 1));
}

}  // namespace
}  // namespace orrery::moe
