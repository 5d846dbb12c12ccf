// megatron-a2a beyond what every algorithm is tested for, and where it is nccl-bsp: weights, counts
// and a host, or neither.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emu/errors.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::Contains;
using testing::HasSubstr;

RunConfig megatron(const Settings& settings = {},
                   const Workload& workload = make_workload(8, 2, 8)) {
  RunConfig config = small_run("megatron-a2a", 4, 4, workload);
  config.settings = settings;
  return config;
}

Settings padded(const std::string& factor) {
  return {{"algorithm.drop_and_pad", "true"}, {"algorithm.capacity_factor", factor}};
}

double core_time(const Result& result, int operation, const std::string& what) {
  const auto& times = result.operations(operation).core_time_us();
  return times.contains(what) ? times.at(what) : 0;
}

// The same collectives, with weights.
TEST(MegatronA2a, IsNcclBspWithProbs) {
  RunConfig bsp = small_run("nccl-bsp", 4, 4, make_workload(8, 2, 8));
  bsp.settings = {{"algorithm.probs", "true"}};
  const Result other = good_run(bsp);
  const Result result = good_run(megatron());
  EXPECT_EQ(result.output_digest(), other.output_digest());
  for (int operation : {0, 1, 2}) {
    EXPECT_EQ(result.operations(operation).latency_us().max(),
              other.operations(operation).latency_us().max());
  }
}

TEST(MegatronA2a, PaddingNeedsNoCountsAndNoHost) {
  const Result counted = good_run(megatron());
  const Result fixed = good_run(megatron(padded("4")));
  EXPECT_EQ(fixed.output_digest(), counted.output_digest());
  EXPECT_DOUBLE_EQ(core_time(counted, 0, "host_sync"), 5);
  EXPECT_DOUBLE_EQ(core_time(fixed, 0, "host_sync"), 0);
  // Histogram and counts were a kernel each.
  EXPECT_DOUBLE_EQ(core_time(counted, 0, "launch") - core_time(fixed, 0, "launch"), 2);
  // One channel: rows, weights and outputs, to three peers of every device in every call.
  EXPECT_EQ(counted.counters().at("puts") - fixed.counters().at("puts"), 3 * 4 * 3);
}

// 8 tokens of top-2 for 8 experts, factor 4: 8 rows for every expert of every device; 128 + 16
// bytes there with 4 of a weight, 128 back.
TEST(MegatronA2a, EveryExpertTakesTheSameNumberOfRows) {
  const Result result = good_run(megatron(padded("4")));
  const double rows = 3.0 * 4 * 3 * 2 * 8;  // calls, devices, peers, experts
  const double signals = 3.0 * 4 * 4 * 3 * 4;
  EXPECT_EQ(result.counters().at("bytes_put"), rows * (144 + 4 + 128) + signals);
}

// Products of all padding: four devices' capacity for two experts each.
TEST(MegatronA2a, PaddingIsMultiplied) {
  const auto experts = [](const std::string& factor) {
    RunConfig config = megatron(padded(factor));
    config.machine.mutable_device()->set_tile_rows(8);
    config.machine.mutable_device()->set_matrix_tflop_per_s(0.01);
    return good_run(config).operations(1).latency_us().max();
  };
  EXPECT_NEAR(experts("16") / experts("4"), 4, 0.5);
}

TEST(MegatronA2a, DropsWhatIsBeyondTheCapacity) {
  const Workload all_to_one = routed(make_workload(8, 2, 8), {{5, 0}});
  const Result result = good_run(megatron(padded("1"), all_to_one));
  EXPECT_THAT(result.notes(), Contains(HasSubstr("144 of 192 rows were beyond the capacity of 2 "
                                                 "per expert and device, and dropped")));
  EXPECT_EQ(result.operations(0).bytes_useful(), 4 * 2 * 2 * 128);
}

// Nothing but the rows' own exchange keeps devices together: without weights, dispatches alone.
TEST(MegatronA2a, T11_PaddedDispatchesInARow) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    Settings settings = padded("2");
    settings.emplace_back("algorithm.probs", "false");
    RunConfig config = megatron(settings);
    config.workload.set_jitter_ns(100'000);
    config.adversary = seed % 2 == 0;
    config.seed = seed;
    config.iterations = 8;
    config.operation = "dispatch";
    good_run(config);
  }
}

TEST(MegatronA2a, TheCheckIsClean) {
  expect_clean(megatron());
  expect_clean(megatron(padded("1")));
}

TEST(MegatronA2a, WrongWeightsAndMissingFencesAreSeen) {
  const RunOutcome wrong = run_alone(megatron({{"algorithm.sabotage", "wrong-prob"}}));
  EXPECT_THAT(failures_of(wrong.result), HasSubstr("has the weight of another one"));
  Settings settings = padded("4");
  settings.emplace_back("algorithm.sabotage", "skip-fence");
  RunConfig config = megatron(settings, make_workload(8, 2, 8, 1024, 8));
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  EXPECT_EQ(times_caught(config, 10), 10);
}

TEST(MegatronA2a, ImpossibleCapacitiesAreRefused) {
  for (const char* factor : {"0", "-1", "1e9", "x"}) {
    EXPECT_THROW(run_alone(megatron(padded(factor))), emu::ConfigError) << factor;
  }
}

}  // namespace
}  // namespace orrery::moe
