// put-signal: what it sends, what its fences cost, and that no signal is early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

constexpr const char* kSignalings[] = {"coupled", "reordered", "decoupled"};

// Four nodes of two devices on a fabric that orders no puts: a fence waits.
RunConfig transfers(const Settings& settings, std::uint32_t devices = 8) {
  RunConfig config = small_run("put-signal", devices, 4, make_workload(8, 2, 4));
  auto& clos = *config.machine.mutable_fabric()->mutable_clos();
  clos.set_nodes(devices / 2);
  clos.set_devices_per_node(2);
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.machine.mutable_device()->set_outstanding_stores(0);
  config.settings = settings;
  return config;
}

double latency(const Result& result) { return result.operations(0).latency_us().max(); }

TEST(PutSignal, SendsToOtherNodesInTurn) {
  const Result result = good_run(transfers({{"algorithm.concurrent", "12"}}));
  const auto& counters = result.counters();
  EXPECT_EQ(counters.at("puts"), 3 * 4 * 12);  // iterations, half of the devices
  EXPECT_EQ(counters.at("signals"), 3 * 4 * 12);
  EXPECT_EQ(counters.count("puts_over_1_switches"), 0u);  // nobody's neighbour
  EXPECT_EQ(result.operations(0).bytes_useful(), 4 * 12 * 16384);
}

TEST(PutSignal, FencesAreCounted) {
  const auto fences = [](const std::string& signaling, const std::string& group,
                         const std::string& ordering) {
    RunConfig config = transfers({{"algorithm.concurrent", "24"},
                                  {"algorithm.senders", "1"},
                                  {"algorithm.signaling", signaling},
                                  {"algorithm.group", group},
                                  {"algorithm.ordering", ordering}});
    config.iterations = 1;
    return good_run(config).counters().at("fences");
  };
  EXPECT_EQ(fences("coupled", "destination", "proxy-fence"), 24);
  EXPECT_EQ(fences("reordered", "destination", "proxy-fence"), 24);
  EXPECT_EQ(fences("decoupled", "1", "proxy-fence"), 24);
  EXPECT_EQ(fences("decoupled", "5", "proxy-fence"), 5);
  EXPECT_EQ(fences("decoupled", "24", "proxy-fence"), 1);
  EXPECT_EQ(fences("decoupled", "destination", "proxy-fence"), 6);  // devices of other nodes
  EXPECT_EQ(fences("none", "destination", "proxy-fence"), 0);
  for (const char* signaling : kSignalings) {
    EXPECT_EQ(fences(signaling, "destination", "nic-fence"), 0) << signaling;
  }
}

TEST(PutSignal, LessWaitingIsSooner) {
  const auto time = [](const std::string& signaling) {
    return latency(good_run(transfers({{"algorithm.signaling", signaling}})));
  };
  EXPECT_GT(time("coupled"), time("reordered"));
  EXPECT_GT(time("reordered"), time("decoupled") * 0.99);
  EXPECT_GT(time("decoupled"), time("none"));
  // Alone there is nothing to put before.
  const auto alone = [](const std::string& signaling) {
    return latency(
        good_run(transfers({{"algorithm.signaling", signaling}, {"algorithm.concurrent", "1"}})));
  };
  EXPECT_EQ(alone("coupled"), alone("reordered"));
  EXPECT_EQ(alone("coupled"), alone("decoupled"));
}

// Coupled, every put waits for the acknowledgement of the one before: twice the way, and the bytes.
TEST(PutSignal, CoupledTransfersTakeARoundTripEach) {
  RunConfig config = transfers({{"algorithm.bytes", "512"},
                                {"algorithm.senders", "1"},
                                {"algorithm.peers", "1"},
                                {"algorithm.concurrent", "1"}});
  config.iterations = 1;
  const std::int64_t one = to_ps(latency(good_run(config)));
  for (auto& [field, value] : config.settings) {
    if (field == "algorithm.concurrent") value = "6";
  }
  const std::int64_t six = to_ps(latency(good_run(config)));
  // Issue of the put, its bytes at the core's rate and on four links cut through, four links there
  // and back. The signal's acknowledgement is on its way while the next put is.
  const std::int64_t put = 100'000 + 51'200 + 51'200 + 2 * 4 * 500'000;
  const std::int64_t signal = 100'000;  // to issue
  EXPECT_NEAR(static_cast<double>(six - one), static_cast<double>(5 * (put + signal)),
              static_cast<double>(5 * 5'000));
}

// A thousand runs.
TEST(PutSignal, NoSignalIsEarlyUnderTheAdversary) {
  for (const char* signaling : kSignalings) {
    for (const char* ordering : {"proxy-fence", "nic-fence"}) {
      for (std::uint64_t seed = 1; seed <= 170; ++seed) {
        RunConfig config = transfers({{"algorithm.signaling", signaling},
                                      {"algorithm.group", "3"},
                                      {"algorithm.ordering", ordering},
                                      {"algorithm.cores", "2"},
                                      {"algorithm.concurrent", "7"},
                                      {"algorithm.bytes", "1500"}},
                                     4);
        config.adversary = true;
        config.seed = seed;
        SCOPED_TRACE(std::string(signaling) + " " + ordering + ", seed " + std::to_string(seed));
        good_run(config);
      }
    }
  }
}

TEST(PutSignal, FencesThatAreMissingAreCaught) {
  for (const char* signaling : kSignalings) {
    for (const Settings& broken : {Settings{{"algorithm.sabotage", "skip-fence"}},
                                   Settings{{"algorithm.ordering", "none"}}}) {
      Settings settings = broken;
      settings.emplace_back("algorithm.signaling", signaling);
      settings.emplace_back("algorithm.concurrent", "4");
      std::uint32_t caught = 0;
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        RunConfig config = transfers(settings, 4);
        config.adversary = true;
        config.seed = seed;
        caught += is_caught(config) ? 1 : 0;
      }
      EXPECT_GE(caught, 5u) << signaling;
      RunConfig config = transfers(settings, 4);
      config.check = true;
      EXPECT_GT(run_alone(config).result.check().findings_size(), 0) << signaling;
      // Where the fabric orders them they are not.
      config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::CORE_PAIR);
      EXPECT_TRUE(passed(good_run(config))) << signaling;
    }
  }
}

TEST(PutSignal, IsCleanUnderTheCheck) {
  for (const char* signaling : {"coupled", "reordered", "decoupled", "none"}) {
    for (const char* ordering : {"proxy-fence", "nic-fence"}) {
      RunConfig config =
          transfers({{"algorithm.signaling", signaling}, {"algorithm.ordering", ordering}}, 4);
      config.check = true;
      for (const bool adversary : {false, true}) {
        config.adversary = adversary;
        EXPECT_TRUE(passed(good_run(config))) << signaling << " " << ordering;
      }
    }
  }
}

TEST(PutSignal, AMissingSignalIsNamed) {
  for (const char* signaling : kSignalings) {
    const RunOutcome outcome = run_alone(
        transfers({{"algorithm.signaling", signaling}, {"algorithm.sabotage", "drop-signal"}}));
    EXPECT_THAT(outcome.hang, HasSubstr("expected writer: device 0 (transfer 0)")) << signaling;
  }
}

TEST(PutSignal, OneNodeHasNoOthers) {
  RunConfig config = small_run("put-signal", 3, 2, make_workload(8, 2, 4));
  config.settings = {{"algorithm.concurrent", "4"}, {"algorithm.senders", "3"}};
  EXPECT_EQ(good_run(config).counters().at("puts"), 3 * 3 * 4);
}

TEST(PutSignal, RefusesWhatItCannotDo) {
  EXPECT_THROW(run_alone(small_run("put-signal", 1, 2, make_workload(8, 2, 4))), emu::ConfigError);
  for (const auto& [field, value] : Settings{{"algorithm.cores", "5"},
                                             {"algorithm.group", "0"},
                                             {"algorithm.group", "all"},
                                             {"algorithm.senders", "9"},
                                             {"algorithm.concurrent", "0"},
                                             {"algorithm.signaling", "never"}}) {
    EXPECT_THROW(run_alone(transfers({{field, value}})), emu::ConfigError) << field;
  }
}

}  // namespace
}  // namespace orrery::moe
