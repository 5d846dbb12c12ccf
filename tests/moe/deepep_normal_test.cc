// DeepEP's normal kernels: what they send, that rings of any size carry it, and how real libraries
// with such rings came to a standstill or lost rows (numbers as in the project's notes, 9.2
// and 9.3), each as a seeded fault beside the sound run. T numbers as in robust_routing_test.cc,
// which runs one and two levels through the other shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t kDevices = 4;
constexpr std::uint32_t kChannels = 2;  // of four cores

Settings with(const std::string& group, Settings more = {}) {
  more.emplace_back("algorithm.group", group);
  return more;
}
// Rings of so many rows, and chunks, on both levels.
Settings rings(const std::string& group, std::uint32_t tokens, std::uint32_t chunk) {
  return with(group, {{"algorithm.chunk", std::to_string(chunk)},
                      {"algorithm.queue_tokens", std::to_string(tokens)},
                      {"algorithm.far_chunk", std::to_string(chunk)},
                      {"algorithm.far_queue_tokens", std::to_string(tokens)}});
}

RunConfig normal(const Settings& settings, const Workload& workload = make_workload(8, 2, 8)) {
  RunConfig config = small_run("deepep-normal", kDevices, 2 * kChannels, workload);
  config.settings = settings;
  return config;
}

// Rows of several blocks for every device, on a fabric that orders nothing.
RunConfig unordered(const Settings& settings, std::uint64_t seed = 1) {
  RunConfig config = normal(settings, make_workload(8, 4, 12, 512, 8));
  config.machine.mutable_fabric()->set_order_scope(Fabric::NONE);
  config.adversary = true;
  config.seed = seed;
  return config;
}

Settings sabotaged(Settings settings, const std::string& how) {
  settings.emplace_back("algorithm.sabotage", how);
  return settings;
}

std::string findings_of(RunConfig config) {
  config.check = true;
  const Result result = run_alone(config).result;
  std::string text;
  for (const auto& each : result.check().findings()) text += each.text() + "\n";
  return text;
}

double puts(const RunConfig& config) { return good_run(config).counters().at("puts"); }

// --- What is sent ---

TEST(DeepEpNormal, ARowGoesOncePerDevice) {
  const auto tokens = [](const std::vector<int>& experts) {
    return routed(make_workload(8, 4, 6), {experts});
  };
  const double there_and_back = 3 * kDevices * 6 * 2;
  EXPECT_EQ(puts(normal(rings("1", 4, 1), tokens({0, 1, -1, -1}))), there_and_back);
  EXPECT_EQ(puts(normal(rings("1", 4, 1), tokens({0, 1, 2, 3}))), there_and_back * 2);
  EXPECT_EQ(puts(normal(rings("1", 4, 1), tokens({0, 2, 4, 6}))), there_and_back * 4);
}

// With two levels it goes once to a node, and from there once per device; and a record for every
// channel and node says how many do.
TEST(DeepEpNormal, ARowGoesOncePerNodeAndThenOncePerDevice) {
  const auto rows = [](const std::vector<int>& experts) {
    const Workload workload = routed(make_workload(8, 4, 6), {experts});
    const double records = 3 * kDevices * kChannels * 2;
    return (puts(normal(rings("2", 4, 1), workload)) - records) / (3 * kDevices * 6 * 2);
  };
  EXPECT_EQ(rows({0, 1, -1, -1}), 1 + 1);
  EXPECT_EQ(rows({0, 1, 2, 3}), 1 + 2);
  EXPECT_EQ(rows({0, 2, 4, 6}), 2 + 4);
}

TEST(DeepEpNormal, RowsOfAChunkAreOnePut) {
  const Workload workload = routed(make_workload(8, 2, 8), {{0, 1}});
  // A channel has four of a device's tokens.
  EXPECT_EQ(puts(normal(rings("1", 8, 1), workload)), 3 * kDevices * kChannels * 2 * 4);
  EXPECT_EQ(puts(normal(rings("1", 8, 3), workload)), 3 * kDevices * kChannels * 2 * 2);
  EXPECT_EQ(puts(normal(rings("1", 8, 4), workload)), 3 * kDevices * kChannels * 2);
}

TEST(DeepEpNormal, T27_RingsAndChannelsChangeNoOutput) {
  for (const char* group : {"1", "2"}) {
    const Result reference = good_run(normal(with(group)));
    for (const std::uint32_t chunk : {1u, 3u}) {
      EXPECT_EQ(good_run(normal(rings(group, 3, chunk))).output_digest(),
                reference.output_digest());
    }
    for (const std::uint32_t cores : {1u, 2u, 9u}) {
      RunConfig config = small_run("deepep-normal", kDevices, cores, make_workload(8, 2, 8));
      config.settings = with(group);
      EXPECT_EQ(good_run(config).output_digest(), reference.output_digest()) << cores << " cores";
    }
    RunConfig config = normal(with(group, {{"algorithm.release", "queue-pair"}}));
    EXPECT_EQ(good_run(config).output_digest(), reference.output_digest());
  }
}

// --- Rings ---

TEST(DeepEpNormal, T20_RingsDownToTheChunk) {
  for (const char* group : {"1", "2"}) {
    for (const auto& [tokens, chunk] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
             {1, 1}, {2, 2}, {3, 2}, {3, 3}, {7, 4}}) {
      SCOPED_TRACE(std::string(group) + ": " + std::to_string(tokens) + " by " +
                   std::to_string(chunk));
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        good_run(unordered(rings(group, tokens, chunk), seed));
      }
      EXPECT_EQ(findings_of(unordered(rings(group, tokens, chunk))), "");
    }
  }
}

TEST(DeepEpNormal, T20_AChunkThatFitsNoRingIsRefused) {
  try {
    run_alone(normal(rings("2", 3, 4)));
    FAIL();
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("algorithm.queue_tokens"));
    EXPECT_THAT(error.what(), HasSubstr("at least chunk, 4"));
  }
}

// One core plays all roles and another device's jitter blocks it for a while.
TEST(DeepEpNormal, T20_T21_ABlockedConsumerHangsNothing) {
  for (const char* group : {"1", "2"}) {
    Workload workload = make_workload(8, 4, 12);
    workload.set_jitter_ns(60000);
    RunConfig config = small_run("deepep-normal", kDevices, 1, workload);
    config.settings = rings(group, 1, 1);
    config.iterations = 5;
    good_run(config);
  }
}

// --- Faults ---

void expect_sound(const Settings& settings) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) good_run(unordered(settings, seed));
  EXPECT_EQ(findings_of(unordered(settings)), "");
}

std::string hang_of(const Settings& settings) {
  RunConfig config = unordered(settings);
  config.adversary = false;
  return run_alone(config).hang;
}

// 45, DeepEP's README: rings may deadlock. Each sender fills one ring before it turns to the next,
// each receiver empties one: all wait for somebody who is not at it yet.
TEST(DeepEpNormalFaults, Issue45_RingsOneAfterTheOther) {
  const Settings settings = rings("1", 2, 2);
  const std::string hang = hang_of(sabotaged(settings, "in-order"));
  // Device 0 wants room at 1, whose receiver waits for 2, whose sender wants room at 3, and so on.
  for (const char* line : {"device 0 core 0 (dispatch, iteration 0)",
                           "expected writer: device 1 (takes rows from its ring, channel 0)",
                           "device 1 core 1 (dispatch, iteration 0)",
                           "expected writer: device 2 (puts rows into the ring it has here",
                           "device 2 core 0 (dispatch, iteration 0)",
                           "expected writer: device 3 (takes rows from its ring, channel 0)"}) {
    EXPECT_THAT(hang, HasSubstr(line));
  }
  expect_sound(settings);
}

// 24, uccl: senders spin for room and keep their block's receivers from running, forwarders block
// on one device's ring.
TEST(DeepEpNormalFaults, Issue24_SendersSpinAndForwardersBlock) {
  const Settings settings = rings("2", 1, 1);
  const std::string hang = hang_of(sabotaged(settings, "spin-sender"));
  EXPECT_THAT(hang, AllOf(HasSubstr("core 0 (dispatch, iteration 0)"),
                          HasSubstr("core 1 (dispatch, iteration 0)"),
                          HasSubstr("(takes rows from its ring, channel 0)")));
  expect_sound(settings);
}

// 24: rows must be visible before a word tells of them.
TEST(DeepEpNormalFaults, Issue24_FencesAreMissing) {
  for (const char* group : {"1", "2"}) {
    const Settings settings = sabotaged(rings(group, 4, 2), "skip-fence");
    // No slot twice, or it might be read when it is given up.
    RunConfig config = unordered(sabotaged(rings(group, 64, 2), "skip-fence"));
    config.iterations = 1;
    config.adversary = false;
    EXPECT_THAT(findings_of(config), HasSubstr("accept by device"));
    int caught = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      caught += is_caught(unordered(settings, seed)) ? 1 : 0;
    }
    EXPECT_GE(caught, 6) << group;
    expect_sound(rings(group, 4, 2));
  }
}

// 34, DeepEP #310: queues are cleared while heads of the last call are under way.
TEST(DeepEpNormalFaults, Issue34_HeadsInFlightWhenQueuesAreCleared) {
  for (const char* group : {"1", "2"}) {
    const Settings settings = rings(group, 2, 1);
    int caught = 0;
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
      caught += is_caught(unordered(sabotaged(settings, "in-flight-head"), seed)) ? 1 : 0;
    }
    EXPECT_GE(caught, 4) << group;
    RunConfig config = unordered(sabotaged(settings, "in-flight-head"));
    config.adversary = false;
    EXPECT_THAT(findings_of(config),
                testing::ContainsRegex("unordered overwrite: write by device [0-9]+ core 0"));
    expect_sound(settings);
  }
}

// 47, DeepEP #353: a forwarder keeps its heads back. The sender waits for it and it for the sender.
TEST(DeepEpNormalFaults, Issue47_ForwardersKeepHeadsBack) {
  const Settings settings = rings("2", 2, 1);
  const std::string hang = hang_of(sabotaged(settings, "late-head"));
  EXPECT_THAT(hang, AllOf(HasSubstr("device 0 core 0 (dispatch, iteration 0)"),
                          HasSubstr("device 2 (takes rows from its ring, channel 0)"),
                          HasSubstr("device 2 core 1 (dispatch, iteration 0)"),
                          HasSubstr("device 0 (puts rows into the ring it has here, channel 0)")));
  // Rings for all rows hide it.
  good_run(normal(sabotaged(rings("2", 64, 1), "late-head")));
  expect_sound(settings);
}

// 57, DeepEP #411: a hang between nodes, as one record that never comes makes it.
TEST(DeepEpNormalFaults, Issue57_ARecordIsMissing) {
  const std::string hang = hang_of(sabotaged(rings("2", 4, 2), "drop-record"));
  EXPECT_THAT(hang,
              AllOf(HasSubstr("device 2 core 1 (dispatch, iteration 0)"),
                    HasSubstr("expected writer: device 0 (and those with its number: records")));
  const std::string one = hang_of(sabotaged(rings("1", 4, 2), "drop-record"));
  EXPECT_THAT(one, HasSubstr("device 1 core 1 (dispatch, iteration 0)"));
  for (const char* group : {"1", "2"}) expect_sound(rings(group, 4, 2));
}

// --- Through NICs ---

class DeepEpNormalNics : public testing::TestWithParam<const char*> {};

TEST_P(DeepEpNormalNics, TwoLevelsAreRightUnderTheAdversary) {
  const std::string preset = GetParam();
  for (const char* release : {"fence", "queue-pair"}) {
    // Needs a queue pair that orders puts.
    if (release == std::string("queue-pair") && preset != "ibgda" && preset != "ibrc") continue;
    const Settings settings = {{"device.nic_preset", preset},
                               {"device.cores", "4"},
                               {"algorithm.release", release},
                               {"algorithm.far_chunk", "2"},
                               {"algorithm.far_queue_tokens", "3"}};
    RunConfig config =
        shipped_run("h100-ib", "deepep-normal", 6, settings, make_workload(12, 4, 10));
    config.placement = "0,1,2,8,9,10";
    config.adversary = true;
    for (config.seed = 1; config.seed <= 6; ++config.seed) {
      SCOPED_TRACE(preset + " " + release + " seed " + std::to_string(config.seed));
      good_run(config);
    }
    config.seed = 1;
    config.adversary = false;
    const Result result = good_run(config);
    EXPECT_THAT(result.notes(), testing::Contains(HasSubstr("2 nodes of 3 devices")));
    EXPECT_EQ(findings_of(config), "") << preset << " " << release;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, DeepEpNormalNics,
                         testing::Values("ibgda", "ibrc", "libfabric-proxy", "efa", "uccl-proxy"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace orrery::moe
