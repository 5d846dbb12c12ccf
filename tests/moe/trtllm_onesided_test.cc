// TensorRT-LLM's one-sided all-to-all: what it sends and reads, what its flags keep apart, and what
// it says when one is missing. The common tests run it through shapes and routings; here is what is
// its own. T numbers as in robust_routing_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig one_sided(std::uint32_t devices, std::uint32_t cores, const Workload& workload,
                    const Settings& settings = {}) {
  RunConfig config = small_run("trtllm-onesided", devices, cores, workload);
  config.settings = settings;
  return config;
}

// Both tokens of a device name two experts of device 1 and one of device 3.
Workload twice_on_a_device() { return routed(make_workload(8, 3, 2), {{2, 6, 3}, {3, 2, 7}}); }

TEST(TrtllmOneSided, ATokenGoesToADeviceOnceAndIsReadFromThere) {
  const Result result = good_run(one_sided(4, 4, twice_on_a_device()));
  // By iteration: two rows for each of two tokens.
  EXPECT_EQ(result.counters().at("puts"), 3 * 4 * (2 * 2));
  // Devices 1 and 3 have one of the two rows of each of their tokens themselves.
  EXPECT_EQ(result.counters().at("gets"), 3 * (2 * 4 + 2 * 2));
  EXPECT_EQ(result.counters().at("bytes_got"), 3 * (2 * 4 + 2 * 2) * 128);
}

TEST(TrtllmOneSided, MessagesAreAsLongAsTheirElements) {
  const auto bytes = [](const char* quantise) {
    const Workload workload = routed(make_workload(8, 1, 4, 7168, 8), {{0}});
    return good_run(one_sided(4, 4, workload, {{"algorithm.quantise", quantise}}))
        .counters()
        .at("bytes_put");
  };
  // 16 messages an iteration; 16 bytes of header and 8 of ids and weights behind each.
  EXPECT_EQ(bytes("bf16") - bytes("int8"), 3 * 16 * 7168);
  EXPECT_EQ(bytes("int8") - bytes("nvfp4"), 3 * 16 * (7168 - 3584 - 448));
}

TEST(TrtllmOneSided, EveryPrecisionHasItsOwnOutput) {
  std::set<std::string> digests;
  for (const char* quantise : {"bf16", "int8", "nvfp4"}) {
    digests.insert(
        good_run(one_sided(4, 3, make_workload(8, 4, 9), {{"algorithm.quantise", quantise}}))
            .output_digest());
  }
  EXPECT_EQ(digests.size(), 3u);
}

TEST(TrtllmOneSided, T6_NothingNeedsToDivide) {
  for (const std::uint32_t devices : {2u, 3u, 5u}) {
    for (const std::uint32_t experts : {5u, 13u}) {
      Workload workload = make_workload(experts, 4, 17);
      workload.mutable_gate()->set_masked_share(0.4);
      RunConfig config = one_sided(devices, 3, workload, {{"algorithm.quantise", "nvfp4"}});
      config.adversary = true;
      good_run(config);
    }
  }
}

TEST(TrtllmOneSided, T14_NoOrderOfTheFabricIsNeeded) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      RunConfig config = one_sided(4, 4, make_workload(8, 2, 8, 1024, 8));
      emu::set_field(config.machine, "fabric.order_scope", scope, "test");
      emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
      config.adversary = true;
      config.seed = seed;
      good_run(config);
    }
  }
}

TEST(TrtllmOneSided, T27_TheSameBytesInAnyOrderOfArrival) {
  RunConfig config = one_sided(4, 5, make_workload(8, 6, 9));
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
}

// --- What goes wrong, and how it is told ---

TEST(TrtllmOneSided, T28_AMissingFlagIsNamed) {
  RunConfig config = one_sided(4, 4, make_workload(8, 2, 8), {{"algorithm.sabotage", "drop-flag"}});
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("device 3 core "));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 (whichever core sends its last token)"));
}

class TrtllmOneSidedSabotage : public testing::TestWithParam<const char*> {};

TEST_P(TrtllmOneSidedSabotage, IsCaught) {
  // Device 0 is late with its experts' outputs, and the others, which need them, are not.
  Workload workload = make_workload(8, 4, 12, 1024, 8);
  workload.set_jitter_ns(20'000);
  RunConfig config = one_sided(4, 4, workload, {{"algorithm.sabotage", GetParam()}});
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  EXPECT_GE(times_caught(config, 20), 2);
  config.check = true;
  config.iterations = 1;
  EXPECT_FALSE(run_alone(config).result.check().findings().empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, TrtllmOneSidedSabotage,
                         testing::Values("no-release", "early-flag", "skip-ready"),
                         [](const auto& way) {
                           std::string name = way.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TrtllmOneSided, CleanUnderTheCheck) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (const char* operation : {"", "dispatch"}) {
      RunConfig config = one_sided(4, 5, make_workload(8, 3, 8));
      emu::set_field(config.machine, "fabric.order_scope", scope, "test");
      config.operation = operation;
      expect_clean(config);
    }
  }
}

}  // namespace
}  // namespace orrery::moe
