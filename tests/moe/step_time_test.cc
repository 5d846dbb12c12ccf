#include "moe/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "emu/errors.h"
#include "tests/moe/runs.h"
#include "tests/moe/test_workload.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Workload small_model() {
  Workload workload = make_workload(12, 3, 9, 64, 16);
  workload.set_layers(7);
  workload.set_dense_layers(2);
  workload.set_dense_intermediate(48);
  workload.set_vocabulary(100);
  workload.set_context(40);
  workload.mutable_attention()->set_heads(4);
  workload.mutable_attention()->set_kv_heads(2);
  workload.mutable_attention()->set_head_dim(8);
  return workload;
}

RunConfig model_of(const std::string& algorithm) {
  RunConfig config = small_run(algorithm, 6, 3, small_model());
  config.operation = "model";
  return config;
}

const Operation& stage(const Result& result, const std::string& name) {
  const auto found =
      std::find_if(result.operations().begin(), result.operations().end(),
                   [&name](const Operation& operation) { return operation.name() == name; });
  if (found == result.operations().end()) throw std::runtime_error("no stage " + name);
  return *found;
}

std::int64_t sum_of_parts(const ModelTime& model) {
  std::int64_t sum = 0;
  for (const auto& [part, us] : model.parts_us()) sum += to_ps(us);
  return sum;
}

TEST(StepTime, ALayerHasAttentionAndTheFirstIsAfterHeadAndDenseLayer) {
  const Result result = good_run(model_of("cann-bsp"));
  std::vector<std::string> names;
  for (const Operation& operation : result.operations()) names.push_back(operation.name());
  EXPECT_THAT(names, ElementsAre("head", "dense", "attention", "gate", "dispatch", "experts",
                                 "combine", "layer"));
}

TEST(StepTime, WithAllLayersEmulatedItIsTheirSumAndTheRest) {
  RunConfig config = model_of("cann-bsp");
  config.iterations = 5;
  const Result result = good_run(config);
  const ModelTime& model = result.model();
  const double layers = std::accumulate(model.layer_us().begin(), model.layer_us().end(), 0.0);
  EXPECT_EQ(model.layer_us_size(), 5);
  EXPECT_NEAR(model.tpot_us(),
              stage(result, "head").latency_us().max() +
                  2 * stage(result, "dense").latency_us().max() + layers,
              1e-5);
  EXPECT_NEAR(layers, 5 * stage(result, "layer").latency_us().mean(), 1e-5);
  EXPECT_NEAR(model.least_us(), model.tpot_us(), 1e-5);
  EXPECT_NEAR(model.most_us(), model.tpot_us(), 1e-5);
  EXPECT_THAT(model.extrapolation(), HasSubstr("all 5 layers"));
}

TEST(StepTime, TheOtherLayersAreTakenAsTheMeanAndTheEndsAsSpread) {
  RunConfig config = model_of("cann-bsp");
  config.iterations = 2;
  const Result result = good_run(config);
  const ModelTime& model = result.model();
  const double rest =
      stage(result, "head").latency_us().max() + 2 * stage(result, "dense").latency_us().max();
  ASSERT_EQ(model.layer_us_size(), 2);
  const double a = std::min(model.layer_us(0), model.layer_us(1));
  const double b = std::max(model.layer_us(0), model.layer_us(1));
  EXPECT_LT(a, b) << "their routing differs";
  EXPECT_NEAR(model.tpot_us(), rest + 5 * (a + b) / 2, 1e-5);
  EXPECT_NEAR(model.least_us(), rest + a + b + 3 * a, 1e-5);
  EXPECT_NEAR(model.most_us(), rest + a + b + 3 * b, 1e-5);
  EXPECT_EQ(model.emulated_layers(), 2u);
  EXPECT_EQ(model.layers(), 5u);
  EXPECT_THAT(model.extrapolation(), HasSubstr("2 of 5 layers"));
}

// Of every algorithm, drifting, with pauses: to the picosecond.
TEST(StepTime, PartsSumToTheTime) {
  for (const TestedAlgorithm& tested : tested_algorithms()) {
    RunConfig config = tested.run(6, 3, small_model());
    config.operation = "model";
    config.workload.set_jitter_ns(3'000);
    const Result result = good_run(config);
    const ModelTime& model = result.model();
    EXPECT_EQ(sum_of_parts(model), to_ps(model.tpot_us())) << tested.name();
    EXPECT_GT(model.parts_us().at("between kernels"), 0) << tested.name();
    double sum = 0;
    const Operation& layer = stage(result, "layer");
    for (const auto& [part, us] : layer.breakdown_us()) sum += us;
    EXPECT_NEAR(sum, layer.latency_us().max(), 1e-6) << tested.name();
  }
}

TEST(StepTime, WithoutPausesNothingIsBetweenKernels) {
  const ModelTime model = good_run(model_of("ubep")).model();
  EXPECT_EQ(model.parts_us().count("between kernels"), 0u);
  EXPECT_EQ(model.parts_us().size(), 7u);
}

TEST(StepTime, APromptHasATimeToItsFirstToken) {
  RunConfig config = model_of("cann-bsp");
  EXPECT_FALSE(good_run(config).model().has_ttft_us());
  config.workload.set_phase(Workload::PREFILL);
  const ModelTime model = good_run(config).model();
  EXPECT_FALSE(model.has_tpot_us());
  EXPECT_EQ(sum_of_parts(model), to_ps(model.ttft_us()));
}

TEST(StepTime, WithoutDenseLayersThereIsNoneOfThem) {
  RunConfig config = model_of("cann-bsp");
  config.workload.clear_dense_layers();
  config.workload.clear_dense_intermediate();
  const Result result = good_run(config);
  EXPECT_EQ(result.model().parts_us().count("dense"), 0u);
  EXPECT_EQ(result.model().layers(), 7u);
  EXPECT_EQ(result.operations(1).name(), "attention");
}

// Dense layers and head are the slowest device's.
TEST(StepTime, DevicesMayHaveDifferentTokens) {
  RunConfig config = model_of("cann-bsp");
  for (const std::uint32_t tokens : {0u, 1u, 9u, 2u, 5u, 30u}) {
    config.workload.add_tokens_per_device(tokens);
  }
  const Result result = good_run(config);
  EXPECT_LT(stage(result, "dense").latency_us().min(), stage(result, "dense").latency_us().max());
  EXPECT_NEAR(result.model().parts_us().at("dense"), 2 * stage(result, "dense").latency_us().max(),
              1e-6);
  EXPECT_EQ(sum_of_parts(result.model()), to_ps(result.model().tpot_us()));
}

TEST(StepTime, ALayerIsTheSameWhetherHeadAndDenseLayerCameBeforeOrNot) {
  RunConfig config = model_of("cann-bsp");
  const Result model = good_run(config);
  config.operation = "layer";
  const Result layer = good_run(config);
  for (const char* name : {"gate", "experts"}) {
    EXPECT_EQ(stage(model, name).latency_us().max(), stage(layer, name).latency_us().max());
  }
}

TEST(StepTime, RowsAreNotNeededForTheTimes) {
  RunConfig config = model_of("ubep");
  const Result full = good_run(config);
  config.control = true;
  const Result control = good_run(config);
  EXPECT_EQ(full.digest(), control.digest());
  EXPECT_EQ(full.model().SerializeAsString().size(), control.model().SerializeAsString().size());
  EXPECT_EQ(full.model().tpot_us(), control.model().tpot_us());
}

TEST(StepTime, AlignedLayersWaitForTheSlowestDevice) {
  RunConfig config = model_of("cann-bsp");
  config.alignment = devices::Alignment::kIterations;
  const ModelTime model = good_run(config).model();
  EXPECT_GT(model.parts_us().at("between kernels"), 0);
  EXPECT_EQ(sum_of_parts(model), to_ps(model.tpot_us()));
}

std::string refusal(const RunConfig& config) {
  try {
    run_alone(config);
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(StepTime, AWorkloadThatSaysTooLittleIsRefused) {
  RunConfig config = model_of("cann-bsp");
  config.workload.clear_attention();
  EXPECT_THAT(refusal(config), HasSubstr("attention: got 'nothing'"));
  config = model_of("cann-bsp");
  config.workload.clear_vocabulary();
  EXPECT_THAT(refusal(config), HasSubstr("vocabulary: got 'nothing'"));
  config = model_of("cann-bsp");
  config.workload.clear_dense_intermediate();
  EXPECT_THAT(refusal(config), HasSubstr("dense_intermediate: got 'nothing'"));
  config = model_of("cann-bsp");
  config.workload.set_dense_layers(7);
  EXPECT_THAT(refusal(config), HasSubstr("less than layers (7)"));
  config = model_of("cann-bsp");
  config.iterations = 6;
  EXPECT_THAT(refusal(config), HasSubstr("at most the 5 layers with experts"));
  config = model_of("p2p");
  EXPECT_THAT(refusal(config), HasSubstr("an operation of the algorithm"));
}

}  // namespace
}  // namespace orrery::moe
