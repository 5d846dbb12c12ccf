// FlashMoE's layer in one kernel: how many fences each way to signal takes, that no signal is
// early, and the shapes that have broken others. T numbers as in robust_routing_test.cc, whose
// algorithms have a dispatch and a combine to look at; this one has a layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/moe/layer_shapes.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;
using testing::HasSubstr;

struct Variant {
  std::string signaling;
  std::string group = "destination";
  std::string ordering = "proxy-fence";

  Settings settings() const {
    return {{"algorithm.signaling", signaling},
            {"algorithm.group", group},
            {"algorithm.ordering", ordering},
            {"algorithm.row_block", "3"},
            {"algorithm.tile_columns", "24"}};
  }
  std::string name() const {
    std::string text = signaling + "_" + group + "_" + ordering;
    std::replace(text.begin(), text.end(), '-', '_');
    return text;
  }
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name(); }

std::vector<Variant> variants() {
  return {{"coupled"},        {"coupled", "destination", "nic-fence"},
          {"reordered"},      {"reordered", "destination", "nic-fence"},
          {"decoupled"},      {"decoupled", "destination", "nic-fence"},
          {"decoupled", "1"}, {"decoupled", "3"}};
}

// `nodes` nodes of as many devices; no put is ordered, so that only fences do it.
RunConfig on_nodes(std::uint32_t nodes, std::uint32_t devices_per_node, std::uint32_t cores,
                   const Workload& workload, const Settings& settings) {
  RunConfig config = small_run("flashmoe", nodes * devices_per_node, cores, workload);
  auto& clos = *config.machine.mutable_fabric()->mutable_clos();
  clos.set_nodes(nodes);
  clos.set_devices_per_node(devices_per_node);
  config.machine.mutable_fabric()->set_order_scope(Fabric::NONE);
  config.settings = settings;
  return config;
}

double counter(const Result& result, const std::string& name) { return result.counters().at(name); }

// --- Fences ---

// The paper's model, Qwen3-30B: 128 experts of which a token takes 8. Every device has rows for
// every expert, so a phase has as many packets as there are experts.
Workload all_to_all() {
  std::vector<std::vector<int>> tokens;
  for (int token = 0; token < 16; ++token) {
    tokens.emplace_back();
    for (int k = 0; k < 8; ++k) tokens.back().push_back(token * 8 + k);
  }
  return routed(make_workload(128, 8, 32, 16, 8), tokens);
}

double fences_per_device(std::uint32_t nodes, std::uint32_t devices_per_node,
                         const std::string& signaling, const std::string& group,
                         const std::string& ordering) {
  RunConfig config = on_nodes(nodes, devices_per_node, 6, all_to_all(),
                              {{"algorithm.signaling", signaling},
                               {"algorithm.group", group},
                               {"algorithm.ordering", ordering}});
  config.iterations = 1;
  const Result result = good_run(config);
  // Rows there and back, one packet for each expert that is not the device's own.
  const double packets = 2 * (128 - 128.0 / config.devices);
  EXPECT_EQ(counter(result, "puts"), packets * config.devices);
  return counter(result, "fences") / config.devices;
}

// Eight nodes of one device: 112 of the 128 experts are on other nodes. Twice: out and back.
TEST(Flashmoe, FencesOf112RemoteExperts) {
  const auto fences = [](const char* signaling, const char* group, const char* ordering) {
    return fences_per_device(8, 1, signaling, group, ordering);
  };
  EXPECT_EQ(fences("coupled", "destination", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("reordered", "destination", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("decoupled", "1", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("decoupled", "28", "proxy-fence"), 2 * 4);
  EXPECT_EQ(fences("decoupled", "destination", "proxy-fence"), 2 * 7);
  for (const char* signaling : {"coupled", "reordered", "decoupled"}) {
    EXPECT_EQ(fences(signaling, "28", "nic-fence"), 0) << signaling;
  }
}

// Eight nodes of four devices, four experts each: again 112 remote experts, on 28 devices. The 12
// of the device's neighbours take stores, a fence and a flag each, whatever the network's way.
TEST(Flashmoe, FencesOf112RemoteExpertsAndThoseOfTheNode) {
  const auto fences = [](const char* signaling, const char* group, const char* ordering) {
    return fences_per_device(8, 4, signaling, group, ordering) - 2 * 12;
  };
  EXPECT_EQ(fences("coupled", "destination", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("reordered", "destination", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("decoupled", "1", "proxy-fence"), 2 * 112);
  EXPECT_EQ(fences("decoupled", "28", "proxy-fence"), 2 * 4);
  EXPECT_EQ(fences("decoupled", "destination", "proxy-fence"), 2 * 28);
  EXPECT_EQ(fences("reordered", "destination", "nic-fence"), 0);
}

// A group that nothing was put for is signalled and not fenced.
TEST(Flashmoe, OnlyDestinationsThatAreTouchedAreFenced) {
  // Four devices of two experts: device 0 to 1 and 2, device 1 to 3, the others to nobody else.
  RunConfig config =
      on_nodes(4, 1, 5, routed(make_workload(8, 2, 1), {{2, 4}, {6, 7}, {5, -1}, {-1, -1}}),
               {{"algorithm.signaling", "decoupled"}});
  config.iterations = 1;
  const Result result = good_run(config);
  EXPECT_EQ(counter(result, "fences"), 2 * 3);
  EXPECT_EQ(counter(result, "puts"), 2 * 4);
}

// Where cores store by themselves a fence holds up the core that issues it: with one sender all
// that it still has to send. What a fence costs shows against the fabric's own order.
TEST(Flashmoe, FencesCostTimeAndMoreSendersWaitForLess) {
  const auto time = [](const std::string& signaling, const std::string& ordering,
                       const std::string& senders) {
    RunConfig config = on_nodes(8, 1, 8, make_workload(64, 4, 32, 256, 32),
                                {{"algorithm.signaling", signaling},
                                 {"algorithm.ordering", ordering},
                                 {"algorithm.senders", senders}});
    config.machine.mutable_fabric()->set_order_scope(ordering == "none" ? Fabric::CORE_PAIR
                                                                        : Fabric::NONE);
    config.machine.mutable_device()->set_outstanding_stores(0);
    return good_run(config).operations(0).latency_us().max();
  };
  for (const char* signaling : {"coupled", "reordered", "decoupled"}) {
    EXPECT_GT(time(signaling, "proxy-fence", "1"), time(signaling, "none", "1")) << signaling;
  }
  EXPECT_GT(time("decoupled", "proxy-fence", "1"), time("decoupled", "proxy-fence", "3"));
}

// --- Order ---

// A thousand runs.
TEST(Flashmoe, T15_NoSignalIsEarlyUnderTheAdversary) {
  for (const Variant& variant : variants()) {
    for (std::uint64_t seed = 1; seed <= 125; ++seed) {
      RunConfig config = on_nodes(2, 2, 5, make_workload(8, 2, 6, 300, 16), variant.settings());
      config.iterations = 2;
      config.adversary = true;
      config.seed = seed;
      SCOPED_TRACE(variant.name() + ", seed " + std::to_string(seed));
      good_run(config);
    }
  }
}

TEST(Flashmoe, T15_MissingFencesAreCaught) {
  for (const Variant& variant : variants()) {
    for (const char* sabotage : {"skip-fence", "skip-fence-out", "skip-fence-back"}) {
      SCOPED_TRACE(variant.name() + " " + sabotage);
      Settings settings = variant.settings();
      settings.emplace_back("algorithm.sabotage", sabotage);
      RunConfig config = on_nodes(2, 2, 5, make_workload(8, 2, 6, 1024, 16), settings);
      std::uint32_t caught = 0;
      config.adversary = true;
      for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        config.seed = seed;
        caught += is_caught(config) ? 1 : 0;
      }
      EXPECT_GE(caught, 8u);
      config.adversary = false;
      config.check = true;
      EXPECT_GT(run_alone(config).result.check().findings_size(), 0);
      config.machine.mutable_fabric()->set_order_scope(Fabric::CORE_PAIR);
      EXPECT_TRUE(passed(good_run(config)));
    }
  }
}

// ordering=none asks the fabric for what the contract says, and no more.
TEST(Flashmoe, T14_WithoutFencesItNeedsOrderPerCore) {
  for (const char* signaling : {"coupled", "reordered", "decoupled"}) {
    for (const auto scope : {Fabric::DEVICE_PAIR, Fabric::CORE_PAIR, Fabric::NONE}) {
      std::uint32_t caught = 0;
      for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        RunConfig config = on_nodes(2, 2, 5, make_workload(8, 2, 6, 1024, 16),
                                    Variant{signaling, "destination", "none"}.settings());
        config.machine.mutable_fabric()->set_order_scope(scope);
        config.adversary = true;
        config.seed = seed;
        caught += is_caught(config) ? 1 : 0;
      }
      if (scope == Fabric::NONE) {
        EXPECT_GE(caught, 12u) << signaling;
      } else {
        EXPECT_EQ(caught, 0u) << signaling;
      }
    }
  }
}

TEST(Flashmoe, T28_AMissingSignalIsNamed) {
  for (const Variant& variant : variants()) {
    Settings settings = variant.settings();
    settings.emplace_back("algorithm.sabotage", "drop-signal");
    const RunOutcome outcome = run_alone(on_nodes(2, 2, 5, make_workload(8, 2, 6), settings));
    EXPECT_THAT(outcome.hang, HasSubstr("expected writer: device 0 (packet for expert 2)"))
        << variant.name();
  }
}

// --- Shapes, for every variant, with the adversary off and on ---

class FlashmoeShapes : public testing::TestWithParam<std::tuple<Variant, bool>> {
 protected:
  RunConfig config(std::uint32_t devices, std::uint32_t cores, const Workload& workload) const {
    RunConfig made = small_run("flashmoe", devices, cores, workload);
    made.machine.mutable_fabric()->set_order_scope(Fabric::NONE);
    made.settings = std::get<0>(GetParam()).settings();
    made.adversary = std::get<1>(GetParam());
    return made;
  }
};

TEST_P(FlashmoeShapes, T1_DevicesWithoutTokens) {
  expect_devices_without_tokens([this](auto... with) { return config(with...); });
}

TEST_P(FlashmoeShapes, T2_T3_SkewedDestinations) {
  expect_skewed_destinations([this](auto... with) { return config(with...); });
}

TEST_P(FlashmoeShapes, T4_MaskedAndRepeatedChoices) {
  expect_masked_and_repeated_choices([this](auto... with) { return config(with...); });
}

TEST_P(FlashmoeShapes, T6_AnyNumberOfDevicesAndExperts) {
  expect_any_number_of_devices_and_experts([this](auto... with) { return config(with...); });
}

TEST_P(FlashmoeShapes, T9_T10_RowSizesAndChoices) {
  for (const std::uint32_t hidden : {1u, 2u, 3u, 31u, 33u, 127u, 241u, 513u}) {
    good_run(config(3, 5, make_workload(6, 2, 5, hidden, 8)));
  }
  for (const std::uint32_t top_k : {1u, 5u, 16u}) {
    good_run(config(4, 5, make_workload(16, top_k, 3)));
  }
}

TEST_P(FlashmoeShapes, T11_T12_CallsThatDriftAndChange) {
  std::vector<std::vector<int>> tokens(16, {-1, -1});
  for (int token = 0; token < 16; ++token) tokens.push_back({token % 8, (token + 3) % 8});
  for (int token = 0; token < 16; ++token) tokens.push_back({6, -1});
  Workload workload = routed(make_workload(8, 2, 4), tokens);
  workload.set_jitter_ns(50'000);
  RunConfig changing = config(4, 5, workload);
  changing.iterations = 9;
  expect_good_seeds(changing);
  // Devices without experts have nobody's packets to wait for.
  Workload few = make_workload(3, 2, 6);
  few.set_jitter_ns(200'000);
  RunConfig drifting = config(6, 4, few);
  drifting.iterations = 7;
  expect_good_seeds(drifting);
}

TEST_P(FlashmoeShapes, T16_T17_BlocksAndPayloadsOfAllKinds) {
  for (const std::uint32_t block : {512u, 32u, 8u}) {
    RunConfig run = config(4, 5, make_workload(8, 2, 40, 32, 8));
    run.machine.mutable_fabric()->set_atomic_block_bytes(block);
    good_run(run);
  }
}

TEST_P(FlashmoeShapes, T24_RoundsWrap) {
  RunConfig run = config(4, 5, make_workload(8, 2, 4));
  run.settings.emplace_back("algorithm.first_round", "65533");
  run.iterations = 6;
  good_run(run);
}

TEST_P(FlashmoeShapes, T21_AnyNumberOfCoresAndRoles) {
  for (const std::uint32_t cores : {4u, 7u, 40u}) {
    good_run(config(4, cores, make_workload(8, 2, 6)));
  }
  RunConfig run = config(4, 9, make_workload(8, 2, 6));
  run.settings.emplace_back("algorithm.subscribers", "4");
  run.settings.emplace_back("algorithm.senders", "2");
  good_run(run);
}

TEST_P(FlashmoeShapes, TheCheckIsClean) {
  for (const auto scope : {Fabric::DEVICE_PAIR, Fabric::QUEUE_PAIR, Fabric::NONE}) {
    for (const auto ack_at : {Fabric::VISIBLE, Fabric::RECEIVED}) {
      Workload workload = make_workload(8, 2, 6);
      workload.set_jitter_ns(40'000);
      RunConfig run = config(4, 5, workload);
      run.iterations = 4;
      run.machine.mutable_fabric()->set_order_scope(scope);
      run.machine.mutable_fabric()->set_ack_at(ack_at);
      run.check = true;
      const Result result = good_run(run);
      EXPECT_TRUE(passed(result)) << Fabric::OrderScope_Name(scope) << "\n"
                                  << (result.check().findings_size() > 0
                                          ? result.check().findings(0).text()
                                          : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, FlashmoeShapes,
                         testing::Combine(testing::ValuesIn(variants()), testing::Bool()),
                         [](const auto& param) {
                           return std::get<0>(param.param).name() +
                                  (std::get<1>(param.param) ? "_adversary" : "");
                         });

// --- A put that is missing, and what a run says of itself ---

TEST(Flashmoe, T28_AMissingPutIsReported) {
  for (const char* signaling : {"coupled", "reordered", "decoupled"}) {
    std::uint64_t number = 1;
    for (;; ++number) {
      RunConfig run = small_run("flashmoe", 4, 4, make_workload(4, 2, 8, 64, 8));
      run.settings = {{"algorithm.signaling", signaling}};
      run.iterations = 1;
      run.lost_put = {0, number};
      const RunOutcome outcome = run_alone(run);
      if (!outcome.put_lost) {
        EXPECT_TRUE(outcome.result.verified());
        break;  // there are no more
      }
      EXPECT_TRUE(!outcome.hang.empty() || !outcome.result.verified())
          << signaling << ", put " << number;
    }
    EXPECT_GT(number, 30u);
  }
}

// The order of sums is that of arrival: the same in the same run, and within its bound in all.
TEST(Flashmoe, T27_SumsFollowArrivals) {
  RunConfig config =
      on_nodes(4, 2, 5, make_workload(16, 8, 24, 256, 32), {{"algorithm.signaling", "coupled"}});
  config.workload.set_real_ffn_limit(0);  // values of more digits
  config.iterations = 1;
  const Result first = good_run(config);
  EXPECT_EQ(good_run(config).output_digest(), first.output_digest());
  EXPECT_EQ(good_run(config).digest(), first.digest());
  std::uint32_t others = 0;
  config.adversary = true;
  for (std::uint64_t delay = 1; delay <= 8; ++delay) {
    config.machine.mutable_fabric()->set_adversary_delay_ns(static_cast<double>(5'000 * delay));
    others += good_run(config).output_digest() != first.output_digest() ? 1 : 0;
  }
  EXPECT_GT(others, 0u);
}

// What the causal graph makes of its queues, doorbells and counters is what happened.
TEST(Flashmoe, ItsCausesExplainItsTimes) {
  for (const Variant& variant : variants()) {
    RunConfig config = small_run("flashmoe", 4, 6, make_workload(8, 2, 6, 100, 16));
    config.settings = variant.settings();
    config.explain = true;
    const RunOutcome outcome = run_alone(config);
    ASSERT_TRUE(outcome.history.complete) << variant.name();
    EXPECT_EQ(outcome.history.unexplained, 0u) << variant.name();
    EXPECT_EQ(outcome.history.misplaced, 0u) << variant.name();
  }
}

TEST(Flashmoe, RefusesWhatItCannotDo) {
  const auto refused = [](std::uint32_t cores, const Settings& settings) {
    RunConfig config = small_run("flashmoe", 4, cores, make_workload(8, 2, 6));
    config.settings = settings;
    EXPECT_THROW(run_alone(config), emu::ConfigError) << cores;
  };
  refused(2, {});
  refused(3, {{"algorithm.signaling", "decoupled"}});
  refused(4, {{"algorithm.signaling", "decoupled"}, {"algorithm.senders", "2"}});
  refused(4, {{"algorithm.subscribers", "3"}});
  refused(4, {{"algorithm.group", "0"}});
  refused(4, {{"algorithm.row_block", "0"}});
  RunConfig wide = small_run("flashmoe", 4, 4, make_workload(8, 2, 6, 2000, 8));
  wide.settings = {{"algorithm.tile_columns", "1"}};
  EXPECT_THROW(run_alone(wide), emu::ConfigError);
}

}  // namespace
}  // namespace orrery::moe
