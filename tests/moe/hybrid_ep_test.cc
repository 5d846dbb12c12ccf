// Hybrid-EP's kernels: what they send, chunks, and what they say when something is missing. The
// common tests run them through shapes and routings. T numbers as in robust_routing_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

RunConfig grouped(std::uint32_t devices, std::uint32_t cores, const Workload& workload) {
  RunConfig config = small_run("hybrid-ep", devices, cores, workload);
  config.settings = {{"algorithm.group", "2"}};
  return config;
}

TEST(HybridEp, ATokenCrossesOnceToANodeAndOnceToADevice) {
  // Every token has two experts of device 2 and one of device 3, of the second group.
  RunConfig config = grouped(4, 4, routed(make_workload(8, 3, 2), {{4, 5, 6}}));
  const auto counters = good_run(config).counters();
  // By iteration: everybody's routing to everybody; to the other node and back for devices 0 and 1;
  // two rows to its members for each of eight tokens.
  EXPECT_EQ(counters.at("puts"), 3 * (4 * 3 + 2 * 2 * 2 + 8 * 2));
}

// Chunks of 64: 130 tokens are three of them, the last of 2; the blocks have several or none.
TEST(HybridEp, ManyChunksOnAnyNumberOfBlocks) {
  std::string digest;
  for (const char* chunk : {"64", "128", "256"}) {
    for (const std::uint32_t cores : {1u, 2u, 5u, 16u}) {
      RunConfig config = grouped(4, cores, make_workload(8, 2, 130, 8, 8));
      config.settings.emplace_back("algorithm.chunk_tokens", chunk);
      config.iterations = 2;
      const std::string bytes = good_run(config).output_digest();
      if (digest.empty()) digest = bytes;
      EXPECT_EQ(bytes, digest) << chunk << " " << cores;
    }
  }
}

TEST(HybridEp, ChunksAreMultiplesOf64) {
  RunConfig config = grouped(4, 4, make_workload(8, 2, 4));
  config.settings.emplace_back("algorithm.chunk_tokens", "96");
  EXPECT_THROW(run_alone(config), emu::ConfigError);
}

TEST(HybridEp, T14_NoOrderOfTheFabricIsNeeded) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      RunConfig config = grouped(4, 4, make_workload(8, 2, 8, 1024, 8));
      emu::set_field(config.machine, "fabric.order_scope", scope, "test");
      emu::set_field(config.machine, "fabric.choice_per", "PACKET", "test");
      config.adversary = true;
      config.seed = seed;
      good_run(config);
    }
  }
}

TEST(HybridEp, T27_TheSameBytesInAnyOrderOfArrival) {
  RunConfig config = grouped(4, 5, make_workload(8, 3, 9));
  const Result plain = good_run(config);
  config.adversary = true;
  const Result delayed = good_run(config);
  EXPECT_NE(delayed.digest(), plain.digest());
  EXPECT_EQ(delayed.output_digest(), plain.output_digest());
}

// --- What goes wrong, and how it is told ---

TEST(HybridEp, T28_AChunkThatIsNotToldOfIsNamed) {
  RunConfig config = grouped(4, 4, make_workload(8, 2, 8));
  config.settings.emplace_back("algorithm.sabotage", "drop-chunk");
  const std::string report = run_alone(config).hang;
  EXPECT_THAT(report, HasSubstr("device 2 core 2 (dispatch, iteration 0): polls address 0x"));
  EXPECT_THAT(report, HasSubstr("expected writer: device 0 core 0 (chunk 0)"));
}

TEST(HybridEp, AMissingFlushIsCaught) {
  RunConfig config = grouped(4, 4, make_workload(8, 2, 8, 1024, 8));
  emu::set_field(config.machine, "fabric.order_scope", "NONE", "test");
  config.settings.emplace_back("algorithm.sabotage", "skip-flush");
  EXPECT_GE(times_caught(config, 8), 4);
  config.check = true;
  config.iterations = 1;
  EXPECT_FALSE(run_alone(config).result.check().findings().empty());
}

TEST(HybridEp, CleanUnderTheCheck) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    RunConfig config = grouped(4, 5, make_workload(8, 3, 8));
    emu::set_field(config.machine, "fabric.order_scope", scope, "test");
    expect_clean(config);
  }
}

}  // namespace
}  // namespace orrery::moe
