// TensorRT-LLM's two-sided all-to-all: its FIFOs, down to one entry of one row, what its lines keep
// apart, and what it says when a row or an entry is missing. The common tests run it through shapes
// and routings; here is what is its own. T numbers as in robust_routing_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig two_sided(std::uint32_t devices, std::uint32_t cores, const Workload& workload,
                    const Settings& settings = {}) {
  RunConfig config = small_run("trtllm-twosided", devices, cores, workload);
  config.machine = small_machine(devices, cores, 128);
  config.settings = settings;
  return config;
}

// Both tokens of a device name two experts of device 1 and one of device 3.
Workload twice_on_a_device() { return routed(make_workload(8, 3, 2), {{2, 6, 3}, {3, 2, 7}}); }

TEST(TrtllmTwoSided, ATokenGoesToADeviceOnceAndComesBackOnce) {
  const Result result = good_run(two_sided(4, 4, twice_on_a_device()));
  ASSERT_EQ(result.operations_size(), 4);
  EXPECT_EQ(result.operations(0).name(), "prepare");
  // By iteration: two rows for each of two tokens there and back.
  EXPECT_EQ(result.counters().at("puts"), 3 * 4 * (2 * 2 * 2));
  EXPECT_EQ(result.counters().at("gets"), 0u);
}

// A payload is filled up to 16 bytes; behind it are 16 of header and 8 a choice.
TEST(TrtllmTwoSided, RowsAreOfWholeLines) {
  const auto bytes = [](std::uint32_t hidden) {
    const Workload workload = routed(make_workload(8, 2, 4, hidden, 8), {{0, 1}});
    return good_run(two_sided(4, 4, workload)).counters().at("bytes_put");
  };
  // There and back, of 64 and 60 elements: two lines and two, two lines and one.
  EXPECT_EQ(bytes(64) - bytes(60), 3 * 16 * (256 - 256 + 256 - 128));
  EXPECT_EQ(bytes(44) - bytes(40), 3 * 16 * (256 - 128 + 128 - 128));
  EXPECT_EQ(bytes(46), bytes(44));
}

TEST(TrtllmTwoSided, AnyFifosGiveTheSameBytes) {
  std::string digest;
  for (const char* entries : {"1", "2", "4"}) {
    for (const char* bytes : {"1", "1024", "262144"}) {
      for (const char* channels : {"0", "1", "3"}) {
        for (const std::uint32_t cores : {1u, 3u, 16u}) {
          RunConfig config = two_sided(3, cores, make_workload(9, 3, 11),
                                       {{"algorithm.fifo_entries", entries},
                                        {"algorithm.entry_bytes", bytes},
                                        {"algorithm.channels", channels}});
          config.adversary = cores == 3;
          const std::string output = good_run(config).output_digest();
          if (digest.empty()) digest = output;
          EXPECT_EQ(output, digest) << entries << " " << bytes << " " << channels << " " << cores;
        }
      }
    }
  }
}

// With one entry of one row every row waits for the one before to be taken.
TEST(TrtllmTwoSided, SmallFifosTakeLonger) {
  const auto dispatch_us = [](const char* entries, const char* bytes) {
    RunConfig config =
        two_sided(4, 4, make_workload(8, 2, 40),
                  {{"algorithm.fifo_entries", entries}, {"algorithm.entry_bytes", bytes}});
    config.machine.mutable_fabric()->mutable_clos()->mutable_device_link()->set_latency_ns(5'000);
    config.machine.mutable_device()->set_outstanding_stores(0);
    config.alignment = devices::Alignment::kOperations;
    return good_run(config).operations(1).latency_us().max();
  };
  EXPECT_GT(dispatch_us("1", "1"), 3 * dispatch_us("4", "262144"));
}

TEST(TrtllmTwoSided, ReductionMayBeLeftOutOfTheTime) {
  const auto combine = [](const char* reduces) {
    RunConfig config = two_sided(4, 4, make_workload(8, 2, 20), {{"algorithm.do_reduce", reduces}});
    config.alignment = devices::Alignment::kOperations;
    return good_run(config);
  };
  const Result with = combine("true");
  const Result without = combine("false");
  EXPECT_EQ(with.output_digest(), without.output_digest());
  EXPECT_GT(with.operations(3).latency_us().max(), without.operations(3).latency_us().max() + 1);
}

TEST(TrtllmTwoSided, T14_NoOrderOfTheFabricIsNeeded) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      RunConfig config =
          two_sided(4, 4, make_workload(8, 2, 8, 1024, 8),
                    {{"algorithm.fifo_entries", "2"}, {"algorithm.entry_bytes", "2500"}});
      emu::set_field(config.machine, "fabric.order_scope", scope, "test");
      emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
      config.adversary = true;
      config.seed = seed;
      good_run(config);
    }
  }
}

TEST(TrtllmTwoSided, MoreWarpsThanACoreCanHaveAreRefused) {
  EXPECT_THROW(run_alone(two_sided(40, 1, make_workload(8, 2, 1))), emu::ConfigError);
}

// --- What goes wrong, and how it is told ---

TEST(TrtllmTwoSided, T28_AMissingRowIsNamed) {
  RunConfig config = two_sided(4, 4, make_workload(8, 2, 8), {{"algorithm.sabotage", "drop-row"}});
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("wants a row's flags in all lines, or a free entry"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 (row 0 of "));
}

TEST(TrtllmTwoSided, T28_AnEntryThatIsNotGivenBackIsNamed) {
  RunConfig config = two_sided(4, 4, make_workload(8, 2, 20),
                               {{"algorithm.sabotage", "drop-credit"},
                                {"algorithm.fifo_entries", "1"},
                                {"algorithm.entry_bytes", "1"}});
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("device 0 (takes the entry before row 1 of "));
}

class TrtllmTwoSidedSabotage : public testing::TestWithParam<const char*> {};

TEST_P(TrtllmTwoSidedSabotage, IsCaught) {
  RunConfig config = two_sided(4, 4, make_workload(8, 2, 24, 1024, 8),
                               {{"algorithm.sabotage", GetParam()},
                                {"algorithm.fifo_entries", "1"},
                                {"algorithm.entry_bytes", "1"}});
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  EXPECT_GE(times_caught(config, 8), 4);
}

INSTANTIATE_TEST_SUITE_P(Ways, TrtllmTwoSidedSabotage,
                         testing::Values("ignore-credits", "last-line"), [](const auto& way) {
                           std::string name = way.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TrtllmTwoSided, TheCheckSeesALineThatNobodyLookedAt) {
  RunConfig config =
      two_sided(4, 4, make_workload(8, 2, 8, 1024, 8), {{"algorithm.sabotage", "last-line"}});
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  config.check = true;
  config.iterations = 1;
  EXPECT_FALSE(run_alone(config).result.check().findings().empty());
}

TEST(TrtllmTwoSided, CleanUnderTheCheck) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (const char* reduces : {"true", "false"}) {
      for (const char* bytes : {"1", "262144"}) {
        RunConfig config = two_sided(4, 5, make_workload(8, 3, 8),
                                     {{"algorithm.do_reduce", reduces},
                                      {"algorithm.fifo_entries", "1"},
                                      {"algorithm.entry_bytes", bytes}});
        emu::set_field(config.machine, "fabric.order_scope", scope, "test");
        expect_clean(config);
      }
    }
  }
}

}  // namespace
}  // namespace orrery::moe
