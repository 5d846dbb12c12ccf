// tutel-2dh beyond what every algorithm is tested for: messages of one and of two levels, capacity
// and what it drops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emu/errors.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kIterations = 2;

RunConfig tutel(std::uint32_t devices, std::uint32_t cores, const Workload& workload,
                const Settings& settings = {}) {
  RunConfig config = small_run("tutel-2dh", devices, cores, workload);
  config.iterations = kIterations;
  config.settings = settings;
  return config;
}

double counter(const Result& result, const std::string& name) { return result.counters().at(name); }

// G + N messages of each device and direction, G*N where they are flat; a flag each, and in
// dispatch a maximum for every device.
TEST(Tutel2dh, CountsItsMessages) {
  struct Case {
    const char* group;
    double messages;
  };
  for (const auto& [group, messages] : {Case{"0", 4 + 2}, Case{"2", 2 + 4}, Case{"1", 8},
                                        Case{"8", 8}, Case{"3", 8}, Case{"4", 4 + 2}}) {
    const Result result =
        good_run(tutel(8, 3, make_workload(16, 2, 6), {{"algorithm.group", group}}));
    EXPECT_EQ(counter(result, "puts"), kIterations * 8 * 2 * messages) << group;
    EXPECT_EQ(counter(result, "fences"), kIterations * 8 * 2 * messages) << group;
    EXPECT_EQ(counter(result, "signals"), kIterations * 8 * (2 * messages + 8)) << group;
    EXPECT_EQ(counter(result, "gets"), 0) << group;
    EXPECT_THAT(result.notes(), Contains(HasSubstr(messages == 8 ? "flat" : "two levels")))
        << group;
  }
}

TEST(Tutel2dh, PartsOfMessagesArePutsOfTheirOwn) {
  const Workload workload = make_workload(16, 2, 6);
  const Result one = good_run(tutel(8, 6, workload));
  const Result three = good_run(tutel(8, 6, workload, {{"algorithm.message_parts", "3"}}));
  EXPECT_EQ(counter(three, "puts"), 3 * counter(one, "puts"));
  EXPECT_EQ(counter(three, "bytes_put") - counter(one, "bytes_put"),
            2 * 4 * kIterations * 8 * 2 * (4 + 2));  // their flags
  EXPECT_EQ(three.output_digest(), one.output_digest());
}

// Everything crosses twice on two levels: 2 * E * C rows of 128 + 32 bytes, C as the note has it.
TEST(Tutel2dh, TwoLevelsDoubleTheBytes) {
  const Settings fixed{{"algorithm.capacity_factor", "2"}};  // 2 * int(2 * 1) rows per expert
  const double rows = 16 * 4;
  const Result two = good_run(tutel(8, 3, make_workload(16, 2, 6), fixed));
  EXPECT_EQ(counter(two, "bytes_put"), kIterations * 8 * 2 * (2 * rows * 160 + (4 + 2) * 4));
  Settings flat = fixed;
  flat.emplace_back("algorithm.group", "8");
  const Result one = good_run(tutel(8, 3, make_workload(16, 2, 6), flat));
  EXPECT_EQ(counter(one, "bytes_put"), kIterations * 8 * 2 * (rows * 160 + 8 * 4));
}

// --- Capacity ---

// Each of 4 devices has 8 tokens of top-2 for 8 experts: an even share is one row, a factor of 1
// makes room for two. All first choices are of expert 5, all second ones of expert 0.
TEST(Tutel2dh, DropsWhatIsBeyondItsCapacity) {
  RunConfig config =
      tutel(4, 3, routed(make_workload(8, 2, 8), {{5, 0}}), {{"algorithm.capacity_factor", "1"}});
  Result result = good_run(config);
  EXPECT_THAT(result.notes(),
              Contains(HasSubstr("96 of 128 rows were beyond the capacity of 2 per expert and "
                                 "device, and dropped")));
  EXPECT_EQ(result.operations(0).bytes_useful(), 4 * 2 * 2 * 128);
  config.settings = {{"algorithm.capacity_factor", "8"}};
  result = good_run(config);
  EXPECT_THAT(result.notes(), Contains(HasSubstr("0 of 128 rows were beyond")));
  EXPECT_EQ(result.operations(0).bytes_useful(), 4 * 8 * 2 * 128);
}

TEST(Tutel2dh, NothingIsDroppedWithoutAFactor) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RunConfig config = tutel(4, 3, make_workload(8, 3, 9));
    config.seed = seed;
    const Result result = good_run(config);
    EXPECT_THAT(result.notes(), ElementsAre(HasSubstr("two levels")));
    config.settings = {{"algorithm.capacity_factor", "100"}};
    EXPECT_EQ(good_run(config).output_digest(), result.output_digest());
    config.settings = {{"algorithm.capacity_factor", "0.4"}};
    EXPECT_NE(good_run(config).output_digest(), result.output_digest());
  }
}

TEST(Tutel2dh, ACapacityOfNothingDropsEverything) {
  const Result result =
      good_run(tutel(4, 3, make_workload(8, 2, 4), {{"algorithm.capacity_factor", "0.5"}}));
  EXPECT_THAT(result.notes(), Contains(HasSubstr("64 of 64 rows were beyond the capacity of 0")));
  EXPECT_EQ(counter(result, "puts"), 0);
}

TEST(Tutel2dh, ImpossibleOptionsAreRefused) {
  for (const auto& [option, value] : Settings{{"algorithm.capacity_factor", "-1"},
                                              {"algorithm.capacity_factor", "nan"},
                                              {"algorithm.capacity_factor", "1e9"},
                                              {"algorithm.capacity_factor", "2x"},
                                              {"algorithm.group", "-2"},
                                              {"algorithm.message_parts", "0"},
                                              {"algorithm.message_parts", "65"}}) {
    EXPECT_THROW(run_alone(tutel(4, 3, make_workload(8, 2, 4), {{option, value}})),
                 emu::ConfigError)
        << option << "=" << value;
  }
}

// --- Schedules, fences, hot spots, placements ---

TEST(Tutel2dh, T27_GroupsAndPartsDoNotChangeTheOutput) {
  const Workload workload = make_workload(16, 3, 7);
  const Result flat = good_run(tutel(8, 4, workload, {{"algorithm.group", "8"}}));
  for (const char* group : {"0", "2", "4"}) {
    for (const char* cores : {"1", "2", "4"}) {
      const Result other = good_run(
          tutel(8, 4, workload, {{"algorithm.group", group}, {"algorithm.message_parts", cores}}));
      EXPECT_EQ(other.output_digest(), flat.output_digest()) << group << " " << cores;
    }
  }
}

TEST(Tutel2dh, T18_FencesThatDrainChangeTimesAlone) {
  const Workload workload = make_workload(16, 2, 6);
  const Result ordered = good_run(tutel(8, 3, workload));
  RunConfig config = tutel(8, 3, workload);
  emu::set_field(*config.machine.mutable_fabric(), "order_scope", "NONE", "--set");
  const Result drained = good_run(config);
  EXPECT_EQ(drained.output_digest(), ordered.output_digest());
  EXPECT_EQ(counter(drained, "drains"), counter(drained, "fences"));
  EXPECT_GT(drained.operations(0).latency_us().max(), ordered.operations(0).latency_us().max());
}

// One hot expert makes every message of every device as long as its own: equal slices.
TEST(Tutel2dh, T25_AHotSpotIsPaidByAll) {
  const Result slow = good_run(tutel(8, 4, routed(make_workload(8, 1, 16, 512, 8), {{3}})));
  const Result fast = good_run(tutel(
      8, 4, routed(make_workload(8, 1, 16, 512, 8), {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}})));
  EXPECT_EQ(counter(slow, "puts"), counter(fast, "puts"));
  const double flags = kIterations * 8 * ((4 + 2) * 2 * 4 + 8 * 8);
  EXPECT_EQ(counter(slow, "bytes_put") - flags, 8 * (counter(fast, "bytes_put") - flags));
  EXPECT_GT(slow.operations(0).latency_us().min(), fast.operations(0).latency_us().max());
}

TEST(Tutel2dh, T26_TwoDiesTwoHopsAndMixedPlacements) {
  const Workload workload = make_workload(16, 2, 6);
  const auto on = [&](std::uint32_t devices, const std::string& placement, const char* levels) {
    RunConfig config = shipped_run("cm384", "tutel-2dh", devices, {}, workload);
    config.placement = placement;
    config.iterations = 2;
    const Result result = good_run(config);
    EXPECT_THAT(result.notes(), Contains(HasSubstr(levels))) << placement;
    return result;
  };
  const Result package = on(2, "0,1", "flat all-to-all of 2 devices");
  EXPECT_EQ(package.counters().count("puts_over_1_switches"), 0u);
  const Result far = on(2, "0,16", "flat all-to-all of 2 devices");
  EXPECT_EQ(far.output_digest(), package.output_digest());
  EXPECT_GT(far.operations(0).latency_us().max(), package.operations(0).latency_us().max());
  const Result node = on(12, "packed", "flat all-to-all of 12 devices");
  const Result spread = on(12, "spread", "flat all-to-all of 12 devices");
  const Result uneven = on(12, "0-6,16-20", "flat all-to-all of 12 devices");
  const Result two = on(12, "0-5,16-21", "2 groups of 6 devices");
  const Result three = on(12, "32-35,0-3,17-20", "3 groups of 4 devices");
  const Result mixed = on(12, "0,16,1,17,2,18,3,19,4,20,5,21", "2 groups of 6 devices");
  for (const Result& other : {spread, uneven, two, three, mixed}) {
    EXPECT_EQ(other.output_digest(), node.output_digest());
  }
  // Of each direction a device sends one message in two to another node, and the flag behind it.
  EXPECT_EQ(counter(two, "puts_over_3_switches"),
            2 * 12 * (2 * 2 + 6));  // and in dispatch six maxima
}

}  // namespace
}  // namespace orrery::moe
