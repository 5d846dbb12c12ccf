// UBEP: what its flags rest on, what it says when something is missing, and its options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Four devices, rows of several blocks, one call: small enough for a thousand seeds.
RunConfig torn_run(const std::string& flag, std::uint32_t atomic_block_bytes, std::uint64_t seed) {
  RunConfig config = small_run("ubep", 4, 3, make_workload(8, 2, 3, 1200, 8));
  config.machine = small_machine(4, 3, atomic_block_bytes);
  config.settings = {{"algorithm.flag", flag}};
  config.iterations = 1;
  config.adversary = true;
  config.seed = seed;
  return config;
}

constexpr char kTornRead[] =
    "torn read on device [0-9]+: core [0-9]+ took .* but those at .*, put by device [0-9]+ core "
    "[0-9]+ .*";

std::uint32_t caught(const std::string& flag, std::uint32_t atomic_block_bytes,
                     std::uint32_t seeds) {
  std::uint32_t torn = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const RunOutcome outcome = run_alone(torn_run(flag, atomic_block_bytes, seed));
    if (outcome.result.failures_size() == 0) continue;
    EXPECT_THAT(failures_of(outcome.result), HasSubstr("torn read on device"));
    for (const std::string& failure : outcome.result.failures()) {
      if (failure.starts_with("torn read")) {
        EXPECT_THAT(failure, MatchesRegex(kTornRead));
        ++torn;
        break;
      }
    }
  }
  return torn;
}

class TornRows : public testing::TestWithParam<std::tuple<const char*, std::uint32_t>> {};

TEST_P(TornRows, T16_FlagsInBlocksAreCaughtOnSmallerBlocks) {
  const auto [flag, block] = GetParam();
  EXPECT_GE(caught(flag, block, 1000), 990u);
}

INSTANTIATE_TEST_SUITE_P(Blocks, TornRows,
                         testing::Combine(testing::Values("tff", "sp"),
                                          testing::Values(256u, 128u, 64u)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

TEST(Ubep, T16_FlagsInBlocksHoldOnBlocksOf512) {
  for (const char* flag : {"tff", "sp"}) EXPECT_EQ(caught(flag, 512, 1000), 0u) << flag;
}

TEST(Ubep, T16_AChecksumAndFencesHoldOnBlocksOfAnySize) {
  for (const char* flag : {"dc", "stop-and-wait", "fence"}) {
    for (const std::uint32_t block : {512u, 128u, 64u, 32u}) {
      for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(std::string(flag) + ", blocks of " + std::to_string(block));
        good_run(torn_run(flag, block, seed));
      }
    }
  }
}

// The format's block shrinks with the fabric's.
TEST(Ubep, T16_SmallerBlocksOfTheFormatHoldOnSmallerBlocks) {
  for (const char* flag : {"tff", "sp"}) {
    for (const std::uint32_t block : {256u, 128u, 64u}) {
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        RunConfig config = torn_run(flag, block, seed);
        config.settings.emplace_back("algorithm.block_bytes", std::to_string(block));
        good_run(config);
      }
    }
  }
}

// Nothing of it rests on the order of puts.
TEST(Ubep, T14_NoOrderAtAll) {
  for (const char* flag : {"tff", "dc", "sp", "stop-and-wait", "fence"}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      RunConfig config = torn_run(flag, 512, seed);
      config.iterations = 3;
      config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
      good_run(config);
      config.machine.mutable_fabric()->set_choice_per(fabric::Fabric::PACKET);
      good_run(config);
    }
  }
}

// The sentinel is 32 zero bytes: rows that are all zeros, or zero where a flag is, arrive all the
// same. At 1,200 elements nearly every special row has such tails.
TEST(Ubep, T17_PayloadThatLooksLikeTheSentinel) {
  for (const char* precision : {"int8", "bf16"}) {
    for (const char* block : {"512", "64"}) {
      RunConfig config = small_run("ubep", 3, 3, make_workload(6, 2, 100, 300, 8));
      config.machine = small_machine(3, 3, 512);
      config.settings = {{"algorithm.flag", "sp"},
                         {"algorithm.quantise", precision},
                         {"algorithm.block_bytes", block}};
      config.adversary = true;
      config.iterations = 2;
      good_run(config);
    }
  }
}

TEST(Ubep, T24_RoundsWrap) {
  for (const char* flag : {"tff", "dc", "sp", "stop-and-wait", "fence"}) {
    for (const char* first : {"4294967295", "4294967294", "4294967293"}) {
      RunConfig config = small_run("ubep", 4, 3, make_workload(8, 2, 4));
      config.machine = small_machine(4, 3, 512);
      config.settings = {{"algorithm.flag", flag}, {"algorithm.first_round", first}};
      config.iterations = 6;
      config.adversary = true;
      const Result wrapped = good_run(config);
      config.settings.pop_back();
      EXPECT_EQ(good_run(config).output_digest(), wrapped.output_digest());
    }
  }
}

TEST(Ubep, T21_FewerCoresThanRoles) {
  for (const std::uint32_t cores : {1u, 2u, 3u}) {
    for (const char* schedule : {"expert-major", "hop-aware"}) {
      RunConfig config = small_run("ubep", 4, cores, make_workload(8, 2, 6));
      config.machine = small_machine(4, cores, 512);
      config.settings = {{"algorithm.schedule", schedule}};
      good_run(config);
    }
  }
}

TEST(Ubep, CountingCoresOfAnyNumber) {
  for (const char* number : {"1", "2", "5", "7"}) {
    RunConfig config = small_run("ubep", 4, 8, make_workload(8, 2, 6));
    config.machine = small_machine(4, 8, 512);
    config.settings = {{"algorithm.count_cores", number}};
    good_run(config);
  }
  RunConfig config = small_run("ubep", 4, 8, make_workload(8, 2, 6));
  config.settings = {{"algorithm.count_cores", "8"}};
  EXPECT_THROW(run_alone(config), emu::ConfigError);
}

TEST(Ubep, SchedulesAndMappersGiveTheSameBytes) {
  std::string digest;
  for (const char* schedule : {"expert-major", "entry-cyclic", "random", "balanced", "hop-aware"}) {
    for (const char* mapper : {"quaternary", "sort"}) {
      RunConfig config = small_run("ubep", 6, 5, make_workload(13, 3, 9));
      config.machine = small_machine(6, 5, 512);
      config.settings = {{"algorithm.schedule", schedule}, {"algorithm.mapper", mapper}};
      const Result result = good_run(config);
      if (digest.empty()) digest = result.output_digest();
      EXPECT_EQ(result.output_digest(), digest) << schedule << ", " << mapper;
    }
  }
}

TEST(Ubep, HasNoBarrierAndOnlyTheFencesOfItsFlags) {
  for (const char* flag : {"tff", "dc", "sp", "stop-and-wait", "fence"}) {
    RunConfig config = small_run("ubep", 4, 4, make_workload(8, 2, 6));
    config.machine = small_machine(4, 4, 512);
    config.settings = {{"algorithm.flag", flag}};
    const auto counters = good_run(config).counters();
    EXPECT_EQ(counters.at("core_barriers"), 0);
    const double rows = 3 * 2 * 4 * 6 * 2;  // iterations, both ways, devices, tokens, top-k
    EXPECT_EQ(counters.at("fences"), flag == std::string("fence") ? rows : 0) << flag;
    EXPECT_EQ(counters.at("drains"), flag == std::string("stop-and-wait") ? rows : 0) << flag;
  }
}

RunConfig sabotaged(const std::string& how, const std::string& flag) {
  RunConfig config = small_run("ubep", 4, 4, make_workload(8, 2, 8));
  config.machine = small_machine(4, 4, 512);
  config.settings = {{"algorithm.sabotage", how}, {"algorithm.flag", flag}};
  return config;
}

TEST(Ubep, AMissingStatusIsNamed) {
  for (const bool control : {false, true}) {
    RunConfig config = sabotaged("drop-status", "tff");
    config.control = control;
    EXPECT_THAT(run_alone(config).hang, HasSubstr("device 0 (status of list"));
  }
}

TEST(Ubep, AMissingRowIsNamed) {
  const std::pair<const char*, const char*> wants[] = {
      {"tff", "wants the round in the flags of all blocks"},
      {"sp", "wants no sentinel at the end of any block"},
      {"dc", "wants a row whose checksum is right"},
      {"stop-and-wait", "wants the round in its flag"},
      {"fence", "wants the round in its flag"}};
  for (const auto& [flag, words] : wants) {
    const std::string hang = run_alone(sabotaged("drop-row", flag)).hang;
    EXPECT_THAT(hang, HasSubstr(words));
    EXPECT_THAT(hang, HasSubstr("device 0 (row "));
  }
}

}  // namespace
}  // namespace orrery::moe
