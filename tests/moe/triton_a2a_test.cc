// Triton-distributed's all-to-all: how many puts, fences and signals each version takes, what of
// the fabric it relies on as its source has it, and what it says when something is missing. T
// numbers as in robust_routing_test.cc, which runs both versions through the other shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kDevices = 4;

RunConfig triton(const Settings& settings, std::uint32_t cores = 4,
                 const Workload& workload = make_workload(8, 2, 8)) {
  RunConfig config = small_run("triton-a2a", kDevices, cores, workload);
  config.settings = settings;
  return config;
}

// Rows of many blocks, so that the adversary can hold some of them back.
RunConfig large_rows(const std::string& scope, const Settings& settings, std::uint64_t seed = 1) {
  RunConfig config = triton(settings, 4, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", scope, "test");
  config.adversary = true;
  config.seed = seed;
  return config;
}

double counter(const Result& result, const std::string& name) { return result.counters().at(name); }

// Every device has rows for every other one and itself: two tokens, eight experts in turn.
Workload all_to_all() { return routed(make_workload(8, 4, 2), {{0, 2, 4, 6}, {1, 3, 5, 7}}); }

// --- What is sent ---

TEST(TritonA2a, V1PutsRowsSplitsAndScalesOfEachPeerAndOneFence) {
  RunConfig config = triton({}, 4, all_to_all());
  const Result result = good_run(config);
  const double pairs = kDevices * kDevices;
  EXPECT_EQ(counter(result, "puts"), 3 * pairs * (3 + 1));  // and rows alone on the way back
  EXPECT_EQ(counter(result, "fences"), 3 * pairs * 2);
  EXPECT_EQ(counter(result, "signals"), 3 * pairs * 2);
  config.settings = {{"algorithm.quantise", "bf16"}};
  EXPECT_EQ(counter(good_run(config), "puts"), 3 * pairs * (2 + 1));  // no scales
}

TEST(TritonA2a, V2PutsEveryRowAndTheCountsOfEachPeer) {
  const Result result = good_run(triton({{"algorithm.version", "v2"}}, 4, all_to_all()));
  const double pairs = kDevices * kDevices;
  const double entries = kDevices * 2 * 4;
  EXPECT_EQ(counter(result, "puts"), 3 * (2 * entries + pairs));
  EXPECT_EQ(counter(result, "signals"), 3 * pairs * 2);
  // Before the cores meet each lets go of its rows; then a fence per peer.
  EXPECT_EQ(counter(result, "fences"), 3 * 2 * (pairs + kDevices * 4));
}

// A peer that gets no rows is told so.
TEST(TritonA2a, T2_PeersWithoutRowsAreSignalled) {
  for (const char* version : {"v1", "v2"}) {
    const Result result = good_run(
        triton({{"algorithm.version", version}}, 3, routed(make_workload(8, 2, 4), {{-1, -1}})));
    EXPECT_EQ(counter(result, "signals"), 3 * 2 * kDevices * kDevices) << version;
    EXPECT_EQ(counter(result, "puts"), 3 * kDevices * kDevices) << version;  // splits
  }
}

TEST(TritonA2a, FencesOfEachWayToSignal) {
  const auto fences = [](const Settings& settings) {
    return counter(good_run(triton(settings, 4, all_to_all())), "fences") / (3 * 2 * kDevices);
  };
  EXPECT_EQ(fences({{"algorithm.signaling", "coupled"}}), 4);
  EXPECT_EQ(fences({{"algorithm.signaling", "reordered"}}), 4);
  EXPECT_EQ(fences({{"algorithm.signaling", "decoupled"}}), 4);  // by destination
  EXPECT_EQ(fences({{"algorithm.signaling", "decoupled"}, {"algorithm.group", "3"}}), 2);
  EXPECT_EQ(fences({{"algorithm.signaling", "decoupled"}, {"algorithm.group", "9"}}), 1);
  EXPECT_EQ(fences({{"algorithm.signaling", "coupled"}, {"algorithm.ordering", "nic-fence"}}), 0);
}

TEST(TritonA2a, T27_NothingOfItChangesTheOutput) {
  for (const char* version : {"v1", "v2"}) {
    const Settings plain = {{"algorithm.version", version}};
    const Result reference = good_run(triton(plain));
    for (const char* signaling : {"reordered", "decoupled"}) {
      for (const char* group : {"destination", "2", "4"}) {
        Settings settings = plain;
        settings.emplace_back("algorithm.signaling", signaling);
        settings.emplace_back("algorithm.group", group);
        for (const std::uint32_t cores : {1u, 3u}) {
          EXPECT_EQ(good_run(triton(settings, cores)).output_digest(), reference.output_digest())
              << version << " " << signaling << " " << group << " " << cores;
        }
      }
    }
  }
}

// --- What it relies on ---

std::string findings_of(RunConfig config) {
  config.check = true;
  config.adversary = false;
  std::string text;
  const Result result = run_alone(config).result;
  for (const auto& each : result.check().findings()) text += each.text() + "\n";
  return text;
}

int times_caught(const std::string& scope, const Settings& settings) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    caught += is_caught(large_rows(scope, settings, seed)) ? 1 : 0;
  }
  return caught;
}

TEST(TritonA2a, T15_FencesKeepRowsBeforeTheirSignal) {
  for (const char* version : {"v1", "v2"}) {
    for (const char* signaling : {"coupled", "reordered", "decoupled"}) {
      for (const char* ordering : {"proxy-fence", "nic-fence"}) {
        const Settings settings = {{"algorithm.version", version},
                                   {"algorithm.signaling", signaling},
                                   {"algorithm.ordering", ordering},
                                   {"algorithm.group", "2"}};
        SCOPED_TRACE(std::string(version) + " " + signaling + " " + ordering);
        EXPECT_EQ(times_caught("NONE", settings), 0);
        EXPECT_EQ(findings_of(large_rows("NONE", settings)), "");
      }
    }
  }
}

// In the source the signal rides on the put of the scales, ahead of the fence: the rows are another
// put.
TEST(TritonA2a, T15_TheSignalOfV1sSourceTrustsTheTransport) {
  const Settings source = {{"algorithm.release", "trust-order"}};
  EXPECT_GE(times_caught("NONE", source), 8);
  EXPECT_NE(findings_of(large_rows("NONE", source)), "");
  EXPECT_EQ(times_caught("CORE_PAIR", source), 0);
  EXPECT_EQ(findings_of(large_rows("CORE_PAIR", source)), "");
  // Without scales its signal follows the fence.
  const Settings unscaled = {{"algorithm.release", "trust-order"}, {"algorithm.quantise", "bf16"}};
  EXPECT_EQ(times_caught("NONE", unscaled), 0);
}

// In v2 the cores meet and one of them tells of the rows of all.
TEST(TritonA2a, T15_TheSignalsOfV2sSourceTrustTheOrderOfADevicePair) {
  const Settings source = {{"algorithm.version", "v2"}, {"algorithm.release", "trust-order"}};
  EXPECT_NE(findings_of(large_rows("CORE_PAIR", source)), "");
  EXPECT_GE(times_caught("CORE_PAIR", source), 8);
  EXPECT_EQ(findings_of(large_rows("DEVICE_PAIR", source)), "");
  EXPECT_EQ(times_caught("DEVICE_PAIR", source), 0);
}

TEST(TritonA2a, T15_WithoutFencesSignalsOvertake) {
  const Settings bare = {{"algorithm.ordering", "none"}};
  EXPECT_GE(times_caught("NONE", bare), 12);
  EXPECT_EQ(times_caught("CORE_PAIR", bare), 0);
}

// --- What it says ---

TEST(TritonA2a, T28_AMissingSignalIsNamed) {
  for (const Settings& settings : std::vector<Settings>{{{"algorithm.version", "v1"}},
                                                        {{"algorithm.version", "v2"}},
                                                        {{"algorithm.release", "trust-order"}}}) {
    Settings dropped = settings;
    dropped.emplace_back("algorithm.sabotage", "drop-signal");
    const std::string report = run_alone(triton(dropped)).hang;
    EXPECT_THAT(report, HasSubstr("device 3 core 1 (dispatch, iteration 0): polls address 0x"));
    EXPECT_THAT(report, HasSubstr("expected writer: device 0 (signal of call 1)"));
  }
}

std::string refusal(const Settings& settings) {
  try {
    run_alone(triton(settings));
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TritonA2a, RefusesWhatAVersionHasNot) {
  EXPECT_THAT(refusal({{"algorithm.release", "queue-pair"}}), HasSubstr("version=v1"));
  EXPECT_THAT(refusal({{"algorithm.release", "trust-order"}, {"algorithm.signaling", "decoupled"}}),
              HasSubstr("not coupled"));
}

}  // namespace
}  // namespace orrery::moe
