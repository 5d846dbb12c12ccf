// Shapes and routings that have broken dispatch/combine libraries. The T numbers are those of the
// project's notes on algorithms: each stands for a class of defects seen in the wild. Every test
// runs for every algorithm below, with the adversary off and on.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/algorithm.h"
#include "tests/moe/runs.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

bool has_option(const std::string& algorithm, const std::string& option) {
  for (const OptionSpec& spec : find_algorithm(algorithm).options) {
    if (spec.name == option) return true;
  }
  return false;
}

class RobustRouting : public testing::TestWithParam<std::tuple<TestedAlgorithm, bool>> {
 protected:
  static constexpr std::uint64_t kSeeds[] = {1, 2, 77};

  TestedAlgorithm tested() const { return std::get<0>(GetParam()); }
  std::string algorithm() const { return tested().algorithm; }

  RunConfig config(std::uint32_t devices, std::uint32_t cores, const Workload& workload) const {
    RunConfig made = tested().run(devices, cores, workload);
    made.adversary = std::get<1>(GetParam());
    return made;
  }

  // Verified, under several seeds: of routing, inputs, jitter and the adversary.
  static void expect_good(RunConfig config) {
    for (const std::uint64_t seed : kSeeds) {
      config.seed = seed;
      const RunOutcome outcome = run_alone(config);
      ASSERT_EQ(outcome.hang, "") << "seed " << seed;
      ASSERT_TRUE(outcome.result.verified()) << "seed " << seed << "\n"
                                             << failures_of(outcome.result);
    }
  }
};

// --- T1, T8: token counts ---

TEST_P(RobustRouting, T1_OneDeviceWithoutTokens) {
  Workload workload = make_workload(8, 2, 4);
  for (const std::uint32_t tokens : {0u, 4u, 4u, 4u}) workload.add_tokens_per_device(tokens);
  expect_good(config(4, 3, workload));
}

TEST_P(RobustRouting, T1_OnlyOneDeviceWithTokens) {
  for (std::uint32_t holder = 0; holder < 4; ++holder) {
    Workload workload = make_workload(8, 2, 4);
    for (std::uint32_t device = 0; device < 4; ++device)
      workload.add_tokens_per_device(device == holder ? 5 : 0);
    expect_good(config(4, 3, workload));
  }
}

TEST_P(RobustRouting, T1_NobodyHasTokens) { expect_good(config(4, 2, make_workload(8, 2, 0))); }

TEST_P(RobustRouting, T8_OneToken) {
  expect_good(config(4, 4, make_workload(8, 2, 1)));
  expect_good(config(1, 4, make_workload(8, 2, 1)));
}

TEST_P(RobustRouting, T8_ExactlyTheBound) {
  Workload workload = make_workload(8, 2, 6);
  workload.set_max_tokens(6);
  expect_good(config(4, 3, workload));
  workload.set_max_tokens(64);
  expect_good(config(4, 3, workload));
}

TEST_P(RobustRouting, T8_OneTokenAboveTheBoundIsRefused) {
  Workload workload = make_workload(8, 2, 7);
  workload.set_max_tokens(6);
  EXPECT_THROW(run_alone(config(4, 3, workload)), emu::ConfigError);
  workload.set_tokens(6);
  for (const std::uint32_t tokens : {6u, 6u, 7u, 6u}) workload.add_tokens_per_device(tokens);
  EXPECT_THROW(run_alone(config(4, 3, workload)), emu::ConfigError);
}

// --- T2, T3: skewed destinations ---

TEST_P(RobustRouting, T2_ADestinationGetsNothing) {
  // Experts 2 and 3, so device 1, get nothing.
  const Workload workload =
      routed(make_workload(8, 2, 4), {{0, 1}, {4, 7}, {6, 5}, {1, 0}, {7, 0}, {5, 6}, {0, 4}});
  expect_good(config(4, 3, workload));
}

TEST_P(RobustRouting, T3_AllTokensToOneExpert) {
  for (const int expert : {0, 3, 7}) {
    expect_good(config(4, 3, routed(make_workload(8, 1, 9), {{expert}})));
  }
}

TEST_P(RobustRouting, T3_AllTokensToOneDevice) {
  expect_good(config(4, 3, routed(make_workload(8, 2, 9), {{6, 7}, {7, 6}})));
}

// --- T4, T5: masked, repeated and impossible entries ---

TEST_P(RobustRouting, T4_MaskedInEveryPosition) {
  const Workload workload = routed(
      make_workload(8, 3, 5),
      {{-1, 1, 2}, {3, -1, 4}, {5, 6, -1}, {-1, -1, 7}, {0, -1, -1}, {-1, 2, -1}, {1, 5, 7}});
  expect_good(config(4, 3, workload));
}

TEST_P(RobustRouting, T4_AllMasked) {
  expect_good(config(4, 3, routed(make_workload(8, 2, 4), {{-1, -1}})));
}

TEST_P(RobustRouting, T4_SomeTokensAllMasked) {
  expect_good(config(4, 3, routed(make_workload(8, 2, 4), {{-1, -1}, {2, 5}, {-1, -1}})));
}

TEST_P(RobustRouting, T4_MaskedAtRandom) {
  for (const double masked : {0.1, 0.5, 0.95}) {
    Workload workload = make_workload(8, 4, 6);
    workload.mutable_gate()->set_masked_share(masked);
    expect_good(config(4, 3, workload));
  }
}

TEST_P(RobustRouting, T4_TheSameExpertTwiceInOneToken) {
  Workload workload = make_workload(8, 3, 4);
  workload.mutable_gate()->set_allow_duplicates(true);
  expect_good(config(4, 3, workload));
  expect_good(config(4, 3, routed(workload, {{5, 5, 5}, {5, 0, 5}, {-1, 2, 2}})));
}

TEST_P(RobustRouting, T5_AnExpertThatDoesNotExistIsRefused) {
  EXPECT_THROW(run_alone(config(4, 3, routed(make_workload(8, 2, 4), {{0, 8}}))), emu::ConfigError);
  EXPECT_THROW(run_alone(config(4, 3, routed(make_workload(8, 2, 4), {{0, -2}}))),
               emu::ConfigError);
}

// --- T6: experts and devices that do not divide ---

TEST_P(RobustRouting, T6_ExpertsNotDivisibleByDevices) {
  for (const std::uint32_t experts : {2u, 5u, 7u, 9u, 13u}) {
    expect_good(config(4, 3, make_workload(experts, 2, 4)));
  }
}

TEST_P(RobustRouting, T6_OddNumbersOfDevices) {
  for (const std::uint32_t devices : {1u, 2u, 3u, 5u, 12u, 24u}) {
    expect_good(config(devices, 2, make_workload(17, 3, 3)));
  }
}

TEST_P(RobustRouting, T6_OneAndManyExpertsPerDevice) {
  expect_good(config(4, 3, make_workload(4, 2, 4)));
  expect_good(config(4, 3, make_workload(256, 2, 4)));
}

TEST_P(RobustRouting, T6_MoreCoresThanWork) { expect_good(config(3, 16, make_workload(3, 1, 2))); }

// --- T7: unequal batches ---

TEST_P(RobustRouting, T7_UnequalTokens) {
  Workload workload = make_workload(8, 2, 4);
  for (const std::uint32_t tokens : {1u, 17u, 0u, 3u, 8u}) workload.add_tokens_per_device(tokens);
  expect_good(config(5, 3, workload));
}

TEST_P(RobustRouting, T7_CountsThatDoNotFitTheDevicesAreRefused) {
  Workload workload = make_workload(8, 2, 4);
  workload.add_tokens_per_device(4);
  EXPECT_THROW(run_alone(config(4, 3, workload)), emu::ConfigError);
}

// --- T9, T10: row sizes and K ---

TEST_P(RobustRouting, T9_RowSizesAroundBlockBorders) {
  for (const std::uint32_t hidden :
       {1u,   2u,   15u,  16u,  17u,  31u,  32u,  33u,  127u, 128u, 129u,
        239u, 240u, 241u, 479u, 480u, 481u, 511u, 512u, 513u, 960u, 961u}) {
    RunConfig run = config(3, 2, make_workload(6, 2, 3, hidden, 8));
    run.seed = hidden;
    good_run(run);
    if (!has_option(algorithm(), "quantise")) continue;
    run.settings.emplace_back("algorithm.quantise", "bf16");
    good_run(run);
  }
}

TEST_P(RobustRouting, T10_EveryTopK) {
  for (std::uint32_t top_k = 1; top_k <= 16; ++top_k) {
    RunConfig run = config(4, 3, make_workload(16, top_k, 3));
    run.seed = top_k;
    good_run(run);
  }
}

// --- T11, T12, T13: calls that follow each other ---

TEST_P(RobustRouting, T11_IterationsWithDevicesThatDrift) {
  for (const double jitter_ns : {2'000.0, 20'000.0, 200'000.0}) {
    Workload workload = make_workload(8, 2, 6);
    workload.set_jitter_ns(jitter_ns);
    RunConfig run = config(4, 3, workload);
    run.iterations = 7;
    expect_good(run);
  }
}

TEST_P(RobustRouting, T11_JitterMakesDevicesDrift) {
  Workload workload = make_workload(8, 2, 6);
  const Result together = good_run(config(4, 3, workload));
  workload.set_jitter_ns(100'000);
  const Result apart = good_run(config(4, 3, workload));
  EXPECT_NE(apart.digest(), together.digest());
  EXPECT_EQ(apart.output_digest(), together.output_digest());
  // Ten operations of about ten microseconds, each up to a hundred late.
  EXPECT_GT(apart.virtual_time_us(), together.virtual_time_us() + 100);
}

// Devices whose token stays at home need nothing from the others in combine: they are a call ahead
// at once, as soon as they have heard from everybody in dispatch. Only double buffers keep the
// calls apart.
TEST_P(RobustRouting, T11_DevicesThatNeedNobodyRunAhead) {
  const Workload workload = routed(make_workload(8, 2, 1), {{0, 1}, {2, -1}, {-1, -1}, {6, 7}});
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    RunConfig run = config(4, 3, workload);
    run.iterations = 6;
    run.seed = seed;
    good_run(run);
  }
}

TEST_P(RobustRouting, T12_ShapesAlternateBetweenCalls) {
  // 16 tokens an iteration: all masked, then two rows each, then all to one expert.
  std::vector<std::vector<int>> tokens(16, {-1, -1});
  for (int token = 0; token < 16; ++token) tokens.push_back({token % 8, (token + 3) % 8});
  for (int token = 0; token < 16; ++token) tokens.push_back({6, -1});
  Workload workload = routed(make_workload(8, 2, 4), tokens);
  workload.set_jitter_ns(50'000);
  RunConfig run = config(4, 3, workload);
  run.iterations = 9;
  expect_good(run);
}

TEST_P(RobustRouting, T13_FastDevicesCombineWhileSlowOnesStillCopy) {
  // Everything goes to the last device, whose copies are slow; the others are far ahead by then.
  Workload workload = routed(make_workload(8, 2, 6), {{6, 7}, {7, 6}, {0, 7}});
  workload.set_jitter_ns(100'000);
  RunConfig run = config(4, 3, workload);
  run.machine.mutable_device()->set_core_copy_gb_per_s(0.02);
  run.iterations = 5;
  expect_good(run);
}

// --- T16, T17: what bytes look like on the way ---

TEST_P(RobustRouting, T16_AtomicBlocksOfEverySize) {
  for (const std::uint32_t block : {512u, 128u, 64u, 32u}) {
    if (block < tested().atomic_block_bytes) continue;
    RunConfig run = config(4, 3, make_workload(8, 2, 5, 300, 16));
    run.machine = small_machine(4, 3, block);
    expect_good(run);
  }
}

TEST_P(RobustRouting, T17_PayloadThatLooksLikeFlagsOrNothing) {
  // One row in 64 is all zeros, all 1.0f words, all -0.0 or the like (moe/rows.h).
  RunConfig run = config(4, 4, make_workload(8, 2, 80, 32, 8));
  run.iterations = 2;
  expect_good(run);
  if (!has_option(algorithm(), "quantise")) return;
  run.settings.emplace_back("algorithm.quantise", "bf16");
  expect_good(run);
}

TEST_P(RobustRouting, AlignedOperationsGiveTheSameBytes) {
  RunConfig run = config(4, 3, make_workload(8, 2, 6));
  const Result drifting = good_run(run);
  run.alignment = devices::Alignment::kOperations;
  EXPECT_EQ(good_run(run).output_digest(), drifting.output_digest());
}

// --- T21: core counts that change between calls ---

class CoresPerCall : public RobustRouting {};  // algorithms that let one set them

TEST_P(CoresPerCall, T21_ConstantCoreCountsAreFine) {
  for (const char* cores : {"4,4", "3", "1,1,1"}) {
    RunConfig run = config(4, 4, make_workload(8, 2, 6));
    run.iterations = 6;
    run.settings.emplace_back("algorithm.cores", cores);
    expect_good(run);
  }
}

// Every core keeps its own parity: one that sat out a call writes into, and polls, the other half
// than its peers. The run has to end, and has to say so.
TEST_P(CoresPerCall, T21_ChangingCoreCountsNeverPass) {
  for (const char* cores : {"4,2", "2,4", "4,4,1", "1,4", "3,4,4"}) {
    for (const std::uint64_t seed : kSeeds) {
      RunConfig run = config(4, 4, make_workload(8, 2, 6));
      run.iterations = 8;
      run.seed = seed;
      run.settings.emplace_back("algorithm.cores", cores);
      EXPECT_TRUE(is_caught(run)) << cores << ", seed " << seed;
    }
  }
}

std::string name_of(const testing::TestParamInfo<RobustRouting::ParamType>& tested) {
  return std::get<0>(tested.param).name() + (std::get<1>(tested.param) ? "_adversary" : "");
}

std::vector<TestedAlgorithm> with_cores_per_call() {
  std::vector<TestedAlgorithm> algorithms = tested_algorithms();
  std::erase_if(algorithms,
                [](const TestedAlgorithm& each) { return !has_option(each.algorithm, "cores"); });
  return algorithms;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, RobustRouting,
                         testing::Combine(testing::ValuesIn(tested_algorithms()), testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Algorithms, CoresPerCall,
                         testing::Combine(testing::ValuesIn(with_cores_per_call()),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace orrery::moe
