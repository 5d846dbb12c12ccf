#include "moe/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emu/errors.h"
#include "tests/moe/runs.h"
#include "tests/moe/test_workload.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const Result& result) {
  std::vector<std::string> names;
  for (const Operation& operation : result.operations()) names.push_back(operation.name());
  return names;
}

RunConfig layer_of(const std::string& algorithm) {
  RunConfig config = small_run(algorithm, 6, 3, make_workload(12, 3, 9, 64, 16));
  config.operation = "layer";
  return config;
}

TEST(Stages, ALayerIsTheGateAndAllOperations) {
  EXPECT_THAT(names_of(good_run(layer_of("cann-bsp"))),
              ElementsAre("gate", "dispatch", "experts", "combine", "layer"));
  EXPECT_THAT(names_of(good_run(layer_of("flashmoe"))), ElementsAre("gate", "kernel", "layer"));
}

TEST(Stages, OtherwiseAnIterationEndsWithTheOperationThatIsAskedFor) {
  RunConfig config = layer_of("cann-bsp");
  config.operation = "experts";
  EXPECT_THAT(names_of(good_run(config)), ElementsAre("dispatch", "experts"));
  config.operation = "";
  EXPECT_THAT(names_of(good_run(config)), ElementsAre("dispatch", "experts", "combine"));
}

TEST(Stages, WhatIsNoOperationIsRefusedWithTheNamesThereAre) {
  RunConfig config = layer_of("cann-bsp");
  config.operation = "layr";
  try {
    run_alone(config);
    FAIL() << "an unknown operation was run";
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("dispatch, experts, combine, layer, model"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'layer'"));
  }
  config.algorithm = "p2p";
  config.operation = "layer";
  EXPECT_THROW(run_alone(config), emu::ConfigError);
}

// Kernels of a device follow each other without a gap, so their latencies add up.
TEST(Stages, ALayerTakesAsLongAsItsStages) {
  for (const devices::Alignment alignment :
       {devices::Alignment::kNone, devices::Alignment::kOperations}) {
    RunConfig config = layer_of("cann-bsp");
    config.alignment = alignment;
    const Result result = good_run(config);
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += result.operations(i).latency_us().mean();
    EXPECT_NEAR(result.operations(4).latency_us().mean(), sum, 1e-6);
    EXPECT_GT(result.operations(0).latency_us().min(), 0);
    EXPECT_EQ(result.operations(4).bytes_useful(),
              result.operations(1).bytes_useful() + result.operations(3).bytes_useful());
  }
}

// A late start between two kernels belongs to the layer.
TEST(Stages, PausesBetweenKernelsCount) {
  RunConfig config = layer_of("cann-bsp");
  config.iterations = 2;
  config.workload.set_jitter_ns(100'000);
  const Result result = good_run(config);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += result.operations(i).latency_us().mean();
  EXPECT_GT(result.operations(4).latency_us().mean(), sum + 50);
}

// Of every algorithm, drifting and aligned, through kernels of all devices.
TEST(Stages, TheBreakdownOfALayerSumsToItsLatency) {
  for (const TestedAlgorithm& tested : tested_algorithms()) {
    RunConfig config = tested.run(6, 3, make_workload(12, 3, 9, 64, 16));
    config.operation = "layer";
    config.workload.set_jitter_ns(3'000);
    const Result result = good_run(config);
    const Operation& layer = result.operations(result.operations_size() - 1);
    ASSERT_EQ(layer.name(), "layer") << tested.name();
    double sum = 0;
    for (const auto& [part, us] : layer.breakdown_us()) sum += us;
    EXPECT_NEAR(sum, layer.latency_us().max(), 1e-6) << tested.name();
  }
}

// Aligned devices begin a layer together, not each of its operations.
TEST(Stages, AlignmentIsOfTheWholeLayer) {
  RunConfig config = layer_of("cann-bsp");
  config.alignment = devices::Alignment::kOperations;
  const Result operations = good_run(config);
  config.alignment = devices::Alignment::kIterations;
  EXPECT_EQ(operations.digest(), good_run(config).digest());
}

}  // namespace
}  // namespace orrery::moe
