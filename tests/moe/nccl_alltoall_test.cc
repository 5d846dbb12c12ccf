// NCCL's sample all-to-all: both ways to know that all has come, what each rests on, and that
// neither works without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

const Settings kBarrier = {{"algorithm.sync", "barrier"}};
const Settings kBoth = {{"algorithm.sync", "barrier"}, {"algorithm.barriers", "both"}};
const Settings kSentinel = {{"algorithm.sync", "sentinel"}};

RunConfig small(const Settings& settings, std::uint32_t devices = 4, std::uint32_t cores = 3) {
  RunConfig config = small_run("nccl-alltoall", devices, cores, make_workload(8, 2, 4));
  config.settings = settings;
  config.settings.emplace_back("algorithm.bytes", "1040");
  config.iterations = 7;
  return config;
}

RunConfig with(RunConfig config, const std::string& field, const std::string& value) {
  config.settings.emplace_back(field, value);
  return config;
}

TEST(NcclAllToAll, BringsEveryByteOnEveryFabric) {
  for (const Settings& settings : {kBarrier, kBoth, kSentinel}) {
    for (const char* topology : {"gb200-nvl72", "tiny", "mi300x-8", "tpu7x", "star"}) {
      for (const char* bytes : {"16", "80", "4096", "70000"}) {
        SCOPED_TRACE(settings.back().second + " " + topology + " " + bytes);
        Settings all = settings;
        all.emplace_back("algorithm.bytes", bytes);
        RunConfig config = shipped_run(topology, "nccl-alltoall", 4, all);
        config.iterations = 5;
        good_run(config);
      }
    }
  }
}

// More devices than a wait has places, a single one, and more blocks than lines or cores.
TEST(NcclAllToAll, OfAnyNumberOfDevicesAndBlocks) {
  for (const Settings& settings : {kBarrier, kBoth, kSentinel}) {
    good_run(with(small(settings, 70, 2), "algorithm.bytes", "32"));
    for (const std::uint32_t devices : {1u, 2u, 5u}) {
      for (const char* blocks : {"1", "3", "64"}) {
        SCOPED_TRACE(settings.back().second + " " + std::to_string(devices) + " " + blocks);
        good_run(with(small(settings, devices, 4), "algorithm.blocks", blocks));
      }
    }
  }
}

TEST(NcclAllToAll, AgainstTheAdversaryWithAndWithoutOrder) {
  for (const Settings& settings : {kBarrier, kBoth, kSentinel}) {
    for (const auto scope : {fabric::Fabric::DEVICE_PAIR, fabric::Fabric::NONE}) {
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        RunConfig config = small(settings);
        config.machine.mutable_fabric()->set_order_scope(scope);
        config.machine.mutable_fabric()->set_atomic_block_bytes(16);
        config.adversary = true;
        config.seed = seed;
        good_run(config);
      }
    }
  }
}

TEST(NcclAllToAll, IsCleanUnderTheChecker) {
  for (const Settings& settings : {kBarrier, kBoth, kSentinel}) {
    for (const auto scope :
         {fabric::Fabric::DEVICE_PAIR, fabric::Fabric::CORE_PAIR, fabric::Fabric::NONE}) {
      for (const bool control : {false, true}) {
        RunConfig config = small(settings);
        config.machine.mutable_fabric()->set_order_scope(scope);
        config.check = true;
        config.control = control;
        const Result result = good_run(config);
        EXPECT_EQ(result.check().findings_size(), 0)
            << settings.back().second << " " << scope << ": "
            << (result.check().findings_size() > 0 ? result.check().findings(0).text() : "");
      }
    }
  }
}

// All of it is carried: every word may tell of its store.
TEST(NcclAllToAll, ControlCarriesWhatIsPolled) {
  RunConfig config = small(kSentinel);
  const Result full = good_run(config);
  config.control = true;
  const Result control = good_run(config);
  EXPECT_EQ(control.digest(), full.digest());
  EXPECT_EQ(control.output_digest(), full.output_digest());
  EXPECT_EQ(control.operations(0).latency_us().max(), full.operations(0).latency_us().max());
}

// --- Words of the payload that equal the sentinel ---

TEST(NcclAllToAll, SentinelsInThePayloadAreReplaced) {
  const RunConfig config = with(small(kSentinel), "algorithm.payload", "sentinels");
  const Result replaced = good_run(config);
  const Result random = good_run(small(kSentinel));
  EXPECT_NE(replaced.output_digest(), random.output_digest());
  EXPECT_EQ(replaced.operations(0).latency_us().max(), random.operations(0).latency_us().max());
  RunConfig barrier = small(kBarrier);
  barrier.settings.emplace_back("algorithm.payload", "sentinels");
  EXPECT_NE(good_run(barrier).output_digest(), replaced.output_digest());  // they stay there
}

TEST(NcclAllToAll, SentinelsInThePayloadHangWhereTheyMustNotBe) {
  RunConfig config = with(small(kSentinel), "algorithm.payload", "sentinels");
  config.settings.emplace_back("algorithm.clash", "forbid");
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("wants no word that is the sentinel"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 0 (data)"));
  RunConfig random = small(kSentinel);
  random.settings.emplace_back("algorithm.clash", "forbid");
  good_run(random);  // none among a few thousand random words
}

// --- What sentinels rest on ---

TEST(NcclAllToAll, SmallerBlocksTearAndAreSaidToo) {
  RunConfig config = small(kSentinel);
  config.machine.mutable_fabric()->set_atomic_block_bytes(8);
  config.adversary = true;
  const RunOutcome outcome = run_alone(config);
  EXPECT_FALSE(outcome.result.verified());
  EXPECT_THAT(failures_of(outcome.result), HasSubstr("torn read"));
  std::string notes;
  for (const std::string& note : outcome.result.notes()) notes += note + "\n";
  EXPECT_THAT(notes, HasSubstr("16"));
  config.settings[0].second = "barrier";
  good_run(config);  // which asks for no more than its words
}

TEST(NcclAllToAll, ASentinelSavesTheBarrier) {
  for (const char* bytes : {"16", "4096"}) {
    const auto latency = [bytes](Settings settings) {
      settings.emplace_back("algorithm.bytes", bytes);
      RunConfig config = shipped_run("gb200-nvl72", "nccl-alltoall", 8, settings);
      config.iterations = 20;
      return good_run(config).operations(0).latency_us().p50();
    };
    EXPECT_LT(latency(kSentinel), latency(kBarrier)) << bytes;
    EXPECT_LT(latency(kBarrier), latency(kBoth)) << bytes;
  }
}

// --- Broken on purpose ---

std::uint64_t caught(const Settings& settings, const std::string& sabotage) {
  std::uint64_t count = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RunConfig config = with(small(settings), "algorithm.sabotage", sabotage);
    config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
    config.machine.mutable_fabric()->set_atomic_block_bytes(16);
    config.adversary = true;
    config.seed = seed;
    config.iterations = 20;
    count += is_caught(config) ? 1 : 0;
  }
  return count;
}

TEST(NcclAllToAll, SabotageIsCaught) {
  EXPECT_EQ(caught(kSentinel, "none"), 0u);
  EXPECT_EQ(caught(kSentinel, "skip-refill"), 10u);
  EXPECT_EQ(caught(kSentinel, "two-windows"), 10u);
  EXPECT_EQ(caught(kSentinel, "one-window"), 10u);
  EXPECT_EQ(caught(kBarrier, "none"), 0u);
  EXPECT_EQ(caught(kBarrier, "no-fence"), 10u);
  EXPECT_EQ(caught(kBarrier, "no-closing"), 10u);
  EXPECT_EQ(caught(kBoth, "none"), 0u);
  EXPECT_EQ(caught(kBoth, "no-fence"), 10u);
  EXPECT_EQ(caught(kBoth, "no-closing"), 10u);
  EXPECT_EQ(caught(kBoth, "no-opening"), 10u);
}

// Nobody has told that the windows are filled.
TEST(NcclAllToAll, TheFirstCallsNeedTheirBarrier) {
  RunConfig config = with(small(kSentinel), "algorithm.sabotage", "no-opening");
  config.check = true;
  EXPECT_GT(run_alone(config).result.check().findings_size(), 0);
}

// Without an adversary, too: nobody who stores into a window knows that it has been filled again.
TEST(NcclAllToAll, TheCheckerObjectsToTwoWindows) {
  RunConfig config = with(small(kSentinel), "algorithm.sabotage", "two-windows");
  config.check = true;
  const RunOutcome outcome = run_alone(config);
  EXPECT_TRUE(!outcome.hang.empty() || outcome.result.check().findings_size() > 0);
}

TEST(NcclAllToAll, BytesAreWholeStores) {
  for (const char* bytes : {"0", "8", "24", "17"}) {
    RunConfig config = small(kSentinel);
    config.settings.back().second = bytes;
    EXPECT_THROW(run_alone(config), emu::ConfigError) << bytes;
  }
}

}  // namespace
}  // namespace orrery::moe
