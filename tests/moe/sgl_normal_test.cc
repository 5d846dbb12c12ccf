// sgl-normal beyond what every algorithm is tested for: its counts of messages, its rounds, and
// what remote reads cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emu/errors.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kIterations = 3;
constexpr std::uint32_t kExperts = 8;

RunConfig sgl(std::uint32_t devices, std::uint32_t cores, const Workload& workload,
              const Settings& settings = {}) {
  RunConfig config = small_run("sgl-normal", devices, cores, workload);
  config.iterations = kIterations;
  config.settings = settings;
  return config;
}

double counter(const Result& result, const std::string& name) { return result.counters().at(name); }

// Per device and call: a notify flag to and a read from every device, a status to the owner of
// every expert, a read per row; in combine a put, a fence and a status per row.
TEST(SglNormal, CountsItsMessages) {
  constexpr double kDevices = 4;
  constexpr double kRows = kDevices * 5 * 2;
  const Result result = good_run(sgl(4, 3, make_workload(kExperts, 2, 5)));
  EXPECT_EQ(counter(result, "gets"), kIterations * (kDevices * kDevices + kRows));
  EXPECT_EQ(counter(result, "puts"), kIterations * kRows);
  EXPECT_EQ(counter(result, "fences"), kIterations * kRows);
  EXPECT_EQ(counter(result, "signals"),
            kIterations * (kDevices * kDevices + kDevices * kExperts + kRows));
  EXPECT_EQ(counter(result, "core_barriers"), kIterations * kDevices * 6);
  EXPECT_EQ(counter(result, "atomics"), 0);
  EXPECT_EQ(counter(result, "drains"), 0);
}

// A row of 64 int8 is 64 bytes and 32 beside them; a source tells a device 12 bytes per expert.
TEST(SglNormal, CountsItsBytes) {
  const Result result = good_run(sgl(4, 3, make_workload(kExperts, 2, 5, 64)));
  EXPECT_EQ(counter(result, "bytes_got"), kIterations * (4 * 4 * 2 * 12 + 4 * 5 * 2 * 96));
  EXPECT_EQ(result.operations(0).bytes_on_wire(),
            4 * 4 * 2 * 12 + 4 * 5 * 2 * 96 + 4 * 4 * 8 + 4 * kExperts * 32);
}

// Five tokens in rounds of two are three rounds, of which each has its statuses and a flag that it
// is done from and to every device.
TEST(SglNormal, RoundsCostStatusesAndABarrierEach) {
  const RunConfig config =
      sgl(4, 3, make_workload(kExperts, 2, 5), {{"algorithm.per_round_tokens", "2"}});
  const Result result = good_run(config);
  EXPECT_EQ(counter(result, "gets"), kIterations * (4 * 4 + 4 * 5 * 2));
  EXPECT_EQ(counter(result, "signals"),
            kIterations * (4 * 4 + 3 * (4 * kExperts + 4 * 4) + 4 * 5 * 2));
  EXPECT_EQ(counter(result, "core_barriers"), kIterations * 4 * (4 + 3 * 4));
}

TEST(SglNormal, TheDeviceWithTheMostTokensSetsTheRounds) {
  Workload workload = make_workload(kExperts, 2, 4);
  for (const std::uint32_t tokens : {1u, 9u, 0u, 4u}) workload.add_tokens_per_device(tokens);
  const Result result = good_run(sgl(4, 3, workload, {{"algorithm.per_round_tokens", "2"}}));
  EXPECT_EQ(counter(result, "signals"),
            kIterations * (4 * 4 + 5 * (4 * kExperts + 4 * 4) + (1 + 9 + 0 + 4) * 2));
}

TEST(SglNormal, T27_RoundsDoNotChangeTheOutput) {
  const Workload workload = make_workload(kExperts, 2, 9);
  const Result whole = good_run(sgl(4, 3, workload));
  for (const char* tokens : {"1", "2", "4", "8", "9", "1000"}) {
    const Result rounds = good_run(sgl(4, 3, workload, {{"algorithm.per_round_tokens", tokens}}));
    EXPECT_EQ(rounds.output_digest(), whole.output_digest()) << tokens;
  }
  EXPECT_THROW(run_alone(sgl(4, 3, workload, {{"algorithm.per_round_tokens", "0"}})),
               emu::ConfigError);
}

// The window is read by others and written anew in every call and round: whoever may be a call
// ahead must not reach it. Devices 0 and 2 have no experts here.
TEST(SglNormal, T11_DevicesWithoutExpertsDoNotRunAhead) {
  Workload workload = make_workload(2, 1, 3);
  workload.set_jitter_ns(100'000);
  for (const char* tokens : {"1", "8192"}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      RunConfig config = sgl(4, 2, workload, {{"algorithm.per_round_tokens", tokens}});
      config.iterations = 8;
      config.seed = seed;
      config.adversary = seed % 2 == 0;
      good_run(config);
    }
  }
}

// --- What a remote read costs ---

// One core that reads n rows from afar waits for n round trips: with links slower by d it is late
// by at least n times the four links of one, and by no more than that and what else crosses links.
TEST(SglNormal, EveryRowCostsARoundTrip) {
  constexpr std::int64_t kRows = 40;
  constexpr double kSlower = 10'000;
  Workload workload = routed(make_workload(2, 1, kRows), {{1}});
  for (const std::uint32_t tokens : {static_cast<std::uint32_t>(kRows), 0u}) {
    workload.add_tokens_per_device(tokens);
  }
  std::int64_t latency[2];
  for (const int slow : {0, 1}) {
    RunConfig config = sgl(2, 1, workload);
    config.iterations = 1;
    auto* link = config.machine.mutable_fabric()->mutable_clos()->mutable_device_link();
    link->set_latency_ns(link->latency_ns() + slow * kSlower);
    latency[slow] = to_ps(good_run(config).operations(0).latency_us().max());
  }
  const auto round_trip = static_cast<std::int64_t>(4 * kSlower * 1000);
  EXPECT_GE(latency[1] - latency[0], kRows * round_trip);
  EXPECT_LE(latency[1] - latency[0], (kRows + 4) * round_trip);
}

TEST(SglNormal, RemoteReadsAreItsCriticalPath) {
  const Result result =
      good_run(shipped_run("cm384", "sgl-normal", 16, {}, make_workload(16, 4, 64)));
  EXPECT_THAT(result.operations(0).name(), HasSubstr("dispatch"));
  double most = 0;
  std::string longest;
  for (const auto& [part, us] : result.operations(0).breakdown_us()) {
    if (us > most) longest = part;
    most = std::max(most, us);
  }
  EXPECT_EQ(longest, "hop_latency");
}

// --- Fences, hot spots, placements ---

TEST(SglNormal, T18_FencesThatDrainChangeTimesAlone) {
  RunConfig config = sgl(4, 3, make_workload(kExperts, 2, 6));
  config.iterations = 1;  // in later ones others' combine is felt
  const Result ordered = good_run(config);
  for (const char* scope : {"CORE_PAIR", "NONE"}) {
    emu::set_field(*config.machine.mutable_fabric(), "order_scope", scope, "--set");
    const Result other = good_run(config);
    EXPECT_EQ(other.output_digest(), ordered.output_digest());
    // In dispatch nothing is fenced.
    EXPECT_EQ(other.operations(0).latency_us().max(), ordered.operations(0).latency_us().max())
        << scope;
    if (std::string(scope) == "NONE") {
      EXPECT_EQ(counter(other, "drains"), counter(other, "fences"));
      EXPECT_GT(other.operations(2).latency_us().max(), ordered.operations(2).latency_us().max());
    }
  }
}

// All rows leave the windows of all devices for one: its two links take 20 bytes per nanosecond.
TEST(SglNormal, T25_AHotSpotTakesWhatItsLinksTake) {
  const Workload hot = routed(make_workload(8, 2, 32, 4096, 8), {{6, 7}});
  RunConfig config = sgl(8, 8, hot);
  config.iterations = 1;
  const Result result = good_run(config);
  const double rows = 8 * 32 * 2;
  const double remote = rows * 7 / 8;
  EXPECT_GE(result.operations(0).latency_us().max(), remote * (4096 + 32) / 20 / 1000);
  config.workload = make_workload(8, 2, 32, 4096, 8);
  EXPECT_LT(good_run(config).operations(0).latency_us().max(),
            result.operations(0).latency_us().max() / 1.5);
}

TEST(SglNormal, T26_TwoDiesTwoHopsAndMixedPlacements) {
  const Workload workload = make_workload(kExperts, 2, 6);
  const auto on = [&](std::uint32_t devices, const std::string& placement) {
    RunConfig config = shipped_run("cm384", "sgl-normal", devices, {}, workload);
    config.placement = placement;
    config.iterations = 2;
    return good_run(config);
  };
  const Result package = on(2, "0,1");  // two dies of an NPU
  EXPECT_EQ(package.counters().count("puts_over_1_switches"), 0u);
  const Result far = on(2, "0,16");  // two nodes
  EXPECT_EQ(far.counters().count("puts_over_1_switches"), 0u);
  EXPECT_GT(counter(far, "puts_over_3_switches"), 0);
  EXPECT_EQ(far.output_digest(), package.output_digest());
  EXPECT_GT(far.operations(0).latency_us().max(), package.operations(0).latency_us().max());
  const Result packed = on(20, "packed");
  const Result spread = on(20, "spread");
  const Result mixed = on(20, "0-3,16-25,32-35,700-701");
  EXPECT_EQ(spread.output_digest(), packed.output_digest());
  EXPECT_EQ(mixed.output_digest(), packed.output_digest());
}

}  // namespace
}  // namespace orrery::moe
