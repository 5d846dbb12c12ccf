// What every layer of one kernel with sums in a defined order is tested for: shapes, order, missing
// puts, the check, the price of overlap. The T numbers are those of the project's notes on
// algorithms. A new algorithm is one more line of fused_layers(). (FlashMoE's sums have no order:
// flashmoe_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/moe/layer_shapes.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;
using testing::HasSubstr;

struct Layer {
  std::string algorithm;
  Settings settings;
  bool drops = false;           // rows beyond a capacity
  bool sums_in_groups = false;  // of a device's rows first: other outputs
  bool overlaps = true;
  bool explains = true;  // --explain knows all of it

  std::string name() const {
    std::string text = algorithm;
    for (const auto& [field, value] : settings) text += "_" + field.substr(10) + "_" + value;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
  }
  RunConfig run(std::uint32_t devices, std::uint32_t cores, const Workload& workload) const {
    RunConfig config = small_run(algorithm, devices, cores, workload);
    config.machine.mutable_fabric()->set_order_scope(Fabric::NONE);
    config.settings = settings;
    return config;
  }
};
void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.name(); }

std::vector<Layer> fused_layers() {
  return {
      {"tutel", {}, false, false, false},
      {"tutel", {{"algorithm.splits", "3"}}},
      {"tutel", {{"algorithm.splits", "2"}, {"algorithm.capacity_factor", "1"}}, true},
      {"fastermoe", {}},
      {"fastermoe", {{"algorithm.parts", "2"}, {"algorithm.comm_cores", "2"}}},
      {"fastermoe", {{"algorithm.parts", "1"}}, false, false, false},
      {"moe-hub", {}, false, false, false, false},
      {"moe-hub", {{"algorithm.hub", "allocation"}}, false, false, false, false},
      {"moe-hub", {{"algorithm.hub", "availability"}}, false, false, false, false},
      {"comet", {}, false, true},
      {"comet", {{"algorithm.column_splits", "3"}, {"algorithm.comm_cores", "2"}}, false, true},
      {"comet", {{"algorithm.column_splits", "1"}}, false, true},
  };
}

class FusedLayers : public testing::TestWithParam<std::tuple<Layer, bool>> {
 protected:
  static const Layer& layer() { return std::get<0>(GetParam()); }
  static RunConfig config(std::uint32_t devices, std::uint32_t cores, const Workload& workload) {
    RunConfig made = layer().run(devices, cores, workload);
    made.adversary = std::get<1>(GetParam());
    return made;
  }
};

TEST_P(FusedLayers, T1_DevicesWithoutTokens) {
  expect_devices_without_tokens([this](auto... with) { return config(with...); });
}

TEST_P(FusedLayers, T2_T3_SkewedDestinations) {
  expect_skewed_destinations([this](auto... with) { return config(with...); });
}

TEST_P(FusedLayers, T4_MaskedAndRepeatedChoices) {
  expect_masked_and_repeated_choices([this](auto... with) { return config(with...); });
}

TEST_P(FusedLayers, T6_AnyNumberOfDevicesAndExperts) {
  expect_any_number_of_devices_and_experts([this](auto... with) { return config(with...); });
}

TEST_P(FusedLayers, T9_T10_RowSizesAndChoices) {
  for (const std::uint32_t hidden : {1u, 2u, 3u, 31u, 33u, 127u, 241u, 513u}) {
    RunConfig run = config(3, 5, make_workload(6, 2, 5, hidden, 8));
    run.machine.mutable_device()->set_tile_columns(hidden % 2 == 0 ? 128 : 16);
    good_run(run);
    run.control = true;
    good_run(run);
  }
  for (const std::uint32_t top_k : {1u, 5u, 16u}) {
    good_run(config(4, 5, make_workload(16, top_k, 3)));
  }
}

TEST_P(FusedLayers, T11_T12_CallsThatDriftAndChange) {
  std::vector<std::vector<int>> tokens(16, {-1, -1});
  for (int token = 0; token < 16; ++token) tokens.push_back({token % 8, (token + 3) % 8});
  for (int token = 0; token < 16; ++token) tokens.push_back({6, -1});
  Workload workload = routed(make_workload(8, 2, 4), tokens);
  workload.set_jitter_ns(50'000);
  RunConfig changing = config(4, 5, workload);
  changing.iterations = 9;
  expect_good_seeds(changing);
  Workload few = make_workload(3, 2, 6);
  few.set_jitter_ns(200'000);
  RunConfig drifting = config(6, 4, few);
  drifting.iterations = 7;
  expect_good_seeds(drifting);
}

TEST_P(FusedLayers, T16_T17_BlocksAndPayloadsOfAllKinds) {
  for (const std::uint32_t block : {512u, 32u, 8u}) {
    RunConfig run = config(4, 5, make_workload(8, 2, 40, 32, 8));
    run.machine.mutable_fabric()->set_atomic_block_bytes(block);
    good_run(run);
  }
}

// Whatever the cores and the size of tiles: the same bytes.
TEST_P(FusedLayers, T21_T27_CoresTilesAndPlacementsChangeNoByte) {
  std::string digest;
  for (const std::uint32_t cores : {3u, 4u, 7u, 40u}) {
    for (const std::uint32_t rows : {2u, 128u}) {
      RunConfig run = config(4, cores, make_workload(8, 2, 6, 300, 24));
      run.machine.mutable_device()->set_tile_rows(rows);
      run.machine.mutable_device()->set_tile_columns(8 * rows);
      const Result result = good_run(run);
      if (digest.empty()) digest = result.output_digest();
      EXPECT_EQ(result.output_digest(), digest) << cores << " " << rows;
    }
  }
  for (const char* placement : {"spread", "3,1,0,2"}) {
    RunConfig run = config(4, 5, make_workload(8, 2, 6, 300, 24));
    run.placement = placement;
    EXPECT_EQ(good_run(run).output_digest(), digest) << placement;
  }
}

TEST_P(FusedLayers, TheCheckIsClean) {
  for (const auto scope : {Fabric::DEVICE_PAIR, Fabric::QUEUE_PAIR, Fabric::NONE}) {
    for (const auto ack_at : {Fabric::VISIBLE, Fabric::RECEIVED}) {
      Workload workload = make_workload(8, 2, 6);
      workload.set_jitter_ns(40'000);
      RunConfig run = config(4, 5, workload);
      run.iterations = 4;
      run.machine.mutable_device()->set_tile_rows(2);
      run.machine.mutable_device()->set_tile_columns(16);
      run.machine.mutable_fabric()->set_order_scope(scope);
      run.machine.mutable_fabric()->set_ack_at(ack_at);
      run.check = true;
      const Result result = good_run(run);
      EXPECT_EQ(findings_of(result), "") << Fabric::OrderScope_Name(scope);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, FusedLayers,
                         testing::Combine(testing::ValuesIn(fused_layers()), testing::Bool()),
                         [](const auto& param) {
                           return std::get<0>(param.param).name() +
                                  (std::get<1>(param.param) ? "_adversary" : "");
                         });

// --- A put that is missing ---

class FusedLayersOnce : public testing::TestWithParam<Layer> {};

TEST_P(FusedLayersOnce, T28_AMissingPutIsReported) {
  std::uint64_t number = 1;
  std::uint32_t hangs = 0;
  for (;; ++number) {
    // As many rows from every device for every expert: no put carries nothing but padding.
    RunConfig run = GetParam().run(
        4, 4, routed(make_workload(4, 2, 8, 64, 8), {{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
    run.iterations = 1;
    run.lost_put = {0, number};
    RunOutcome outcome;
    try {
      outcome = run_alone(run);
    } catch (const emu::InvariantError&) {
      continue;  // read what was given up
    }
    if (!outcome.put_lost) {
      EXPECT_TRUE(outcome.result.verified());
      break;  // there are no more
    }
    EXPECT_TRUE(!outcome.hang.empty() || !outcome.result.verified()) << "put " << number;
    if (outcome.hang.find("expected writer: device 0") != std::string::npos) ++hangs;
  }
  EXPECT_GT(number, 10u);
  EXPECT_GT(hangs, number / 6);
}

// --- Overlap ---

// The more cores communicate, the fewer multiply.
TEST_P(FusedLayersOnce, CoresForCommunicationAreTakenFromTheProducts) {
  if (!GetParam().overlaps) return;
  const auto time = [](std::uint32_t comm_cores, double tflop_per_s, double store_gb_per_s) {
    RunConfig run = GetParam().run(2, 16, make_workload(8, 2, 64, 256, 256));
    run.settings.emplace_back("algorithm.comm_cores", std::to_string(comm_cores));
    run.iterations = 1;
    devices::Machine& machine = run.machine;
    machine.mutable_device()->set_matrix_tflop_per_s(tflop_per_s);
    machine.mutable_device()->set_core_store_gb_per_s(store_gb_per_s);
    machine.mutable_device()->set_tile_rows(4);
    machine.mutable_device()->set_tile_columns(16);
    return run_alone(run).slowest[0][0];
  };
  // Where products are all that matters, of 16 cores 14 and 4 have them.
  const auto few = static_cast<double>(time(2, 0.01, 10));
  const auto many = static_cast<double>(time(12, 0.01, 10));
  EXPECT_NEAR(many / few, 14.0 / 4, 0.3);
  // Where they take nothing, what counts is how fast cores store.
  EXPECT_LT(time(12, 0, 0.1), 0.5 * time(2, 0, 0.1));
}

// Latencies are what their parts are, and the causal graph has them all.
TEST_P(FusedLayersOnce, ItsTimesAreExplained) {
  for (const bool layer : {false, true}) {
    Workload workload = make_workload(12, 3, 9, 100, 16);
    workload.set_jitter_ns(5'000);
    RunConfig run = GetParam().run(6, 5, workload);
    run.explain = GetParam().explains;
    if (layer) run.operation = "layer";
    const RunOutcome outcome = run_alone(run);
    ASSERT_TRUE(outcome.result.verified()) << failures_of(outcome.result);
    ASSERT_EQ(outcome.history.complete, GetParam().explains);
    EXPECT_EQ(outcome.history.unexplained, 0u);
    EXPECT_EQ(outcome.history.misplaced, 0u);
    for (const Operation& operation : outcome.result.operations()) {
      std::int64_t sum = 0;
      for (const auto& [part, us] : operation.breakdown_us()) sum += to_ps(us);
      EXPECT_EQ(sum, to_ps(operation.latency_us().max())) << operation.name();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, FusedLayersOnce, testing::ValuesIn(fused_layers()),
                         [](const auto& param) { return param.param.name(); });

// Sums in ascending k are what all others define: one output.
TEST(FusedLayersTogether, T27_TheyGiveTheSameOutput) {
  std::string digest;
  for (const Layer& each : fused_layers()) {
    if (each.drops || each.sums_in_groups) continue;
    const std::string output = good_run(each.run(4, 4, make_workload(8, 3, 9))).output_digest();
    if (digest.empty()) digest = output;
    EXPECT_EQ(output, digest) << each.name();
  }
}

}  // namespace
}  // namespace orrery::moe
