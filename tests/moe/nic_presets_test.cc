// Every way to post to a NIC, with every algorithm that is right on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::Contains;
using testing::HasSubstr;

const char* const kPresets[] = {"ibgda", "ibrc", "libfabric-proxy", "efa", "uccl-proxy"};

struct Tested {
  const char* algorithm;
  Settings settings;
};
const Tested kTested[] = {
    {"deepep-ll", {{"algorithm.release", "queue-pair"}}},
    {"pplx", {}},
    {"pplx", {{"device.nic.add_by", "NIC"}}},
    {"pplx-garden", {}},
    {"pplx-garden", {{"algorithm.max_private_tokens", "2"}}},
    {"deepep-v2", {}},
    {"deepep-v2", {{"algorithm.group", "2"}}},
    {"hybrid-ep", {}},
    {"hybrid-ep", {{"algorithm.group", "2"}}},
    {"deepep-normal", {{"algorithm.queue_tokens", "8"}}},
    {"triton-a2a", {}},
    {"triton-a2a", {{"algorithm.signaling", "decoupled"}, {"algorithm.group", "4"}}},
    {"triton-a2a", {{"algorithm.ordering", "nic-fence"}}},
    {"triton-a2a", {{"algorithm.version", "v2"}, {"algorithm.release", "queue-pair"}}},
    {"nccl-bsp", {}},
    {"megatron-a2a", {{"algorithm.drop_and_pad", "true"}}},
    {"tutel", {{"algorithm.splits", "2"}}},
    {"fastermoe", {}},
    {"comet", {}},
    {"tutel-2dh", {}},
    {"sgl-normal", {}},
    {"ubep", {{"algorithm.flag", "dc"}}},
    {"ubep", {{"algorithm.flag", "fence"}}},
    {"flashmoe", {}},
    {"flashmoe", {{"algorithm.signaling", "reordered"}, {"algorithm.ordering", "nic-fence"}}},
    {"flashmoe", {{"algorithm.signaling", "decoupled"}}},
    {"put-signal", {{"algorithm.bytes", "20000"}}},
    {"put-signal",
     {{"algorithm.bytes", "20000"},
      {"algorithm.signaling", "decoupled"},
      {"algorithm.ordering", "nic-fence"}}},
};

bool relies_on_queue_pairs(const Tested& tested) {
  return std::find(tested.settings.begin(), tested.settings.end(),
                   Settings::value_type("algorithm.release", "queue-pair")) !=
         tested.settings.end();
}

// Two nodes, the second with two devices.
RunConfig run_of(const Tested& tested, const std::string& preset) {
  Settings settings = tested.settings;
  settings.emplace_back("device.nic_preset", preset);
  settings.emplace_back("device.cores", "8");
  RunConfig config =
      shipped_run("h100-ib", tested.algorithm, 10, settings, make_workload(16, 2, 8));
  config.iterations = 3;
  return config;
}

// In how many of eight seeds of the adversary the run is caught.
int times_caught(const Tested& tested, const std::string& preset) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    RunConfig config = run_of(tested, preset);
    config.seed = seed;
    config.adversary = true;
    caught += is_caught(config) ? 1 : 0;
  }
  return caught;
}

class NicPreset : public testing::TestWithParam<const char*> {};

TEST_P(NicPreset, IsRightUnderTheAdversary) {
  // What relies on queue pairs needs one that orders, or at least signals.
  const std::string preset = GetParam();
  for (const Tested& tested : kTested) {
    if (preset == "libfabric-proxy" && relies_on_queue_pairs(tested)) continue;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(std::string(tested.algorithm) + " seed " + std::to_string(seed));
      RunConfig config = run_of(tested, preset);
      config.seed = seed;
      config.adversary = true;
      good_run(config);
    }
  }
}

TEST_P(NicPreset, IsCleanUnderTheCheck) {
  const std::string preset = GetParam();
  for (const Tested& tested : kTested) {
    if (preset == "libfabric-proxy" && relies_on_queue_pairs(tested)) continue;
    SCOPED_TRACE(tested.algorithm);
    RunConfig config = run_of(tested, preset);
    config.check = true;
    const RunOutcome outcome = run_alone(config);
    EXPECT_TRUE(outcome.result.verified());
    EXPECT_TRUE(outcome.result.check().findings().empty());
  }
}

// Whatever waits, the parts of the critical path sum to the latency of the slowest device.
TEST_P(NicPreset, BreaksDownToTheLatency) {
  for (const Tested& tested : kTested) {
    const Result result = good_run(run_of(tested, GetParam()));
    for (const auto& operation : result.operations()) {
      double sum = 0;
      for (const auto& [part, us] : operation.breakdown_us()) sum += us;
      EXPECT_NEAR(sum, operation.latency_us().max(), 1e-6) << tested.algorithm;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, NicPreset, testing::ValuesIn(kPresets), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// What the issue trackers of real libraries report (notes 9.2), as seeded faults.

// Counts that overtake data where nothing orders them (uccl-project/uccl#387), and data whose
// signal goes out without a fence under adaptive routing (meta-pytorch/torchcomms#840).
TEST(NicFaults, SignalsWithoutAFenceOvertakeTheirDataWhereNothingOrders) {
  const Tested bare{"put-signal", {{"algorithm.bytes", "20000"}, {"algorithm.ordering", "none"}}};
  EXPECT_GE(times_caught(bare, "libfabric-proxy"), 7);
  RunConfig config = run_of(bare, "libfabric-proxy");
  config.check = true;
  EXPECT_FALSE(run_alone(config).result.check().findings().empty());
  // The receiver of EFA counts what a signal tells of; a queue pair orders by itself.
  for (const char* preset : {"efa", "ibgda", "ibrc"}) good_run(run_of(bare, preset));
}

// A core tells of rows that other cores put, when those are received: not seen yet (as
// deepseek-ai/DeepEP would do without one queue pair for the rows and the count of an expert).
TEST(NicFaults, AcknowledgementsOfWhatIsReceivedOrderNothingForOtherCores) {
  const Tested fences{"deepep-ll", {{"algorithm.release", "fence"}}};
  RunConfig config = run_of(fences, "ibgda");
  config.check = true;
  const RunOutcome outcome = run_alone(config);
  EXPECT_FALSE(outcome.result.check().findings().empty());
  EXPECT_THAT(outcome.result.notes(), Contains(HasSubstr("relies on acknowledgements")));
  EXPECT_GE(times_caught(fences, "ibgda"), 1);
}

// --- What the machines refuse ---

TEST(NicMachines, ExplainIsRefusedWithItsReason) {
  RunConfig config = run_of({"nccl-bsp", {}}, "ibgda");
  config.explain = true;
  try {
    run_alone(config);
    FAIL();
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--explain"));
    EXPECT_THAT(error.what(), HasSubstr("NICs"));
  }
}

TEST(NicMachines, APresetThatIsNotThereIsNamed) {
  try {
    run_of({"nccl-bsp", {}}, "ibverbs");
    FAIL();
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("device.nic_preset"));
    EXPECT_THAT(error.what(), HasSubstr("ibverbs"));
  }
}

// What the machine's file says of its NIC stays; the rest is the preset's; --set goes before both.
TEST(NicMachines, PresetsLieUnderWhatIsSaidOtherwise) {
  const devices::Machine machine =
      devices::load_machine("topologies/h100-ib.textproto",
                            {{"device.nic_preset", "ibrc"}, {"device.nic.proxy_post_ns", "77"}});
  EXPECT_EQ(machine.device().nic().gb_per_s(), 55);
  EXPECT_EQ(machine.device().nic().proxy_post_ns(), 77);
  EXPECT_EQ(machine.device().nic().signal_by(), devices::Nic::PEER_PROXY);
  EXPECT_EQ(machine.fabric().scale_out_rules().order_scope(), fabric::Fabric::QUEUE_PAIR);
}

}  // namespace
}  // namespace orrery::moe
