// Every verdict is held against real runs: what could not have changed anything did not, and the
// same input is not called idle where it is read.
#include "cli/no_effect.h"

#include <gmock/gmock.h>

#include <ostream>

#include "cli/comparison.h"
#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* name;
  RunOptions base;
  std::string input;  // a setting, or a flag of RunOptions
  std::string value;
  NoEffect::Could could;
  const char* reason;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.input << "=" << each.value; }

RunOptions with(RunOptions options, const std::string& input, const std::string& value) {
  if (input == "seed") {
    options.seed = value;
  } else if (input == "tokens") {
    options.tokens = value;
  } else if (input == "align") {
    options.align = true;
  } else if (input == "align-iterations") {
    options.align_iterations = true;
  } else if (input == "topology") {
    options.topology = value;
  } else {
    options.settings.push_back(input + "=" + value);
  }
  return options;
}

constexpr auto kCould = NoEffect::COULD;
constexpr auto kCouldNot = NoEffect::COULD_NOT;
constexpr auto kUnknown = NoEffect::UNKNOWN;

RunOptions small_r1(const std::string& operation = "") {
  RunOptions options = run_options("tiny", "cann-bsp");
  options.workload = "deepseek-r1";
  options.tokens = "1";
  options.payload = "control";
  options.operation = operation;
  return options;
}

std::vector<Case> idle_inputs() {
  const RunOptions tiny = run_options("tiny", "cann-bsp");
  const RunOptions node = run_options("cm384", "cann-bsp", "16");    // one node: one switch away
  const RunOptions package = run_options("cm384", "cann-bsp", "2");  // one package: no switch
  const RunOptions star = run_options("star", "p2p", "4");
  const RunOptions flush = run_options("star", "p2p", "4", {"algorithm.completion=flush"});
  const RunOptions hops = run_options("cm384", "p2p", "16");
  const RunOptions r1 = small_r1();
  const RunOptions hub = run_options("tiny", "moe-hub", "4", {"device.hub.service_ns=2"});
  return {
      {"HubOfOthers", tiny, "device.hub.service_ns", "9", kCouldNot, "no packet passed a hub"},
      {"HubMiss", hub, "device.hub.miss_ns", "9", kCouldNot, "the state of every region at hand"},
      {"AdversaryDelay", tiny, "fabric.adversary_delay_ns", "5", kCouldNot, "--adversary"},
      {"BlockBytes", tiny, "fabric.atomic_block_bytes", "512", kCould, "cut alike"},
      {"SameAsShipped", tiny, "fabric.packet_bytes", "4096", kCouldNot, "topology tiny has that"},
      {"SameAsDefault", tiny, "algorithm.quantise", "int8", kCouldNot, "algorithm cann-bsp has"},
      {"SameWorkload", tiny, "workload.gate.kind", "UNIFORM", kCouldNot, "workload tiny has that"},
      {"Uplink", node, "fabric.clos.uplink.latency_ns", "236", kCouldNot, "more than one switch"},
      {"Spines", node, "fabric.clos.spines_per_plane", "8", kCouldNot, "more than one switch"},
      {"DeviceLink", package, "fabric.clos.device_link.gb_per_s", "1", kCouldNot, "no put crossed"},
      {"Planes", package, "fabric.clos.planes", "3", kCouldNot, "no put crossed a switch"},
      {"PlaneChoice", package, "fabric.plane_choice", "HASH", kCouldNot, "no put crossed"},
      {"PackageLink", hops, "fabric.clos.package_link.gb_per_s", "1", kCouldNot, "every put"},
      {"SelfLatency", star, "fabric.self_latency_ns", "7", kCouldNot, "every put crossed"},
      {"FailedPlane", package, "fabric.failed_planes", "3", kCouldNot, "no put crossed a switch"},
      {"NoFailedPlane", tiny, "fabric.failed_planes", "none", kCouldNot, "topology tiny has that"},
      {"FailedLinkElsewhere", node, "fabric.failed_links", "die16-L1.node1.plane0", kUnknown,
       "no event of the run depended on it"},
      {"HostSync", tiny, "device.host_sync_ns", "9", kCouldNot, "no core waited for the host"},
      {"LocalAtomic", tiny, "device.local_atomic_ns", "9", kCouldNot, "in local atomics"},
      {"Fence", flush, "device.fence_ns", "77", kCouldNot, "no core issued a fence"},
      {"Barrier", star, "device.barrier_ns", "77", kCouldNot, "no kernel has a core barrier"},
      {"BarrierPerCore", star, "device.barrier_per_core_ns", "7", kCouldNot, "core barrier"},
      {"Hbm", star, "device.hbm_gb_per_s", "1", kCouldNot, "no core copied"},
      {"Copy", star, "device.copy_ns", "99", kCouldNot, "no core copied"},
      {"Vector", star, "device.vector_pass_ns", "99", kCouldNot, "no core computed"},
      {"Matrix", star, "device.matrix_tflop_per_s", "3", kCouldNot, "no core computed"},
      {"Window", star, "device.outstanding_stores", "999", kCould, "no store_window"},
      {"Layers", tiny, "workload.layers", "7", kCouldNot, "only a run of the whole model"},
      {"DenseLayers", tiny, "workload.dense_layers", "1", kCouldNot, "the whole model"},
      {"DenseSize", tiny, "workload.dense_intermediate", "7", kCouldNot, "the whole model"},
      {"Attention", r1, "workload.attention.heads", "64", kCouldNot, "the whole model"},
      {"Context", r1, "workload.context", "64", kCouldNot, "the whole model"},
      {"Vocabulary", tiny, "workload.vocabulary", "64", kCouldNot, "the whole model"},
      {"Phase", tiny, "workload.phase", "PREFILL", kCouldNot, "the whole model"},
      {"ZipfOfUniform", tiny, "workload.gate.zipf_s", "2", kCouldNot, "only a ZIPF gate"},
      {"HotOfUniform", tiny, "workload.gate.hot_factor", "2", kCouldNot, "only a HOT_EXPERTS"},
      {"FfnLimit", tiny, "workload.real_ffn_limit", "0", kCouldNot, "never virtual time"},
      {"TokensOfP2p", star, "tokens", "9", kCouldNot, "moves no rows"},
      {"GateOfP2p", star, "workload.gate.kind", "ZIPF", kCouldNot, "moves no rows"},
      {"AlignOfOne", star, "align", "true", kCouldNot, "starts everywhere at once"},
      {"AlignIterationsOfOne", tiny, "align-iterations", "true", kCouldNot, "one iteration"},
      {"SeedOfP2p", star, "seed", "9", kUnknown, "no event of the run depended on it"},
      {"OtherTopology", node, "topology", "cm384-short-hop2", kUnknown, "no event of the run"},
  };
}

class IdleInput : public ::testing::TestWithParam<Case> {};

TEST_P(IdleInput, ChangedNoEventAndIsExplained) {
  const Case& each = GetParam();
  const moe::Result first = run_result(each.base);
  const moe::Result other = run_result(with(each.base, each.input, each.value));
  EXPECT_EQ(first.digest(), other.digest()) << "it did move events";
  EXPECT_TRUE(same_latencies(first, other));
  for (const bool swapped : {false, true}) {
    const NoEffect effect = swapped ? explain_no_effect(each.input, other, first)
                                    : explain_no_effect(each.input, first, other);
    EXPECT_EQ(effect.input(), each.input);
    EXPECT_EQ(effect.could(), each.could) << effect.reason();
    EXPECT_THAT(effect.reason(), HasSubstr(each.reason));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, IdleInput, ::testing::ValuesIn(idle_inputs()),
                         [](const auto& each) { return std::string(each.param.name); });

// The same inputs where the run reads them: no rule may call them idle. The event digest is made
// equal so that the rules are asked at all.
std::vector<Case> read_inputs() {
  const RunOptions tiny = run_options("tiny", "cann-bsp");
  RunOptions adversary = tiny;
  adversary.adversary = true;
  const RunOptions zipf = run_options("tiny", "cann-bsp", "", {"workload.gate.kind=ZIPF"});
  const RunOptions mesh = run_options("cm384", "cann-bsp", "16");
  const RunOptions model = small_r1("model");
  return {
      {"AdversaryDelay", adversary, "fabric.adversary_delay_ns", "5", kUnknown, ""},
      {"Uplink", tiny, "fabric.clos.uplink.latency_ns", "236", kUnknown, ""},
      {"FailedPlane", tiny, "fabric.failed_planes", "1", kUnknown, ""},
      {"FailedLink", tiny, "fabric.failed_links", "device0-L1.node0.plane0", kUnknown, ""},
      {"DeviceLink", tiny, "fabric.clos.device_link.gb_per_s", "1", kUnknown, ""},
      {"PackageLink", mesh, "fabric.clos.package_link.latency_ns", "999", kUnknown, ""},
      {"SelfLatency", tiny, "fabric.self_latency_ns", "7000", kUnknown, ""},
      {"Fence", tiny, "device.fence_ns", "77", kUnknown, ""},
      {"Barrier", tiny, "device.barrier_ns", "77", kUnknown, ""},
      {"Poll", tiny, "device.poll_ns", "77", kUnknown, ""},
      {"Hbm", tiny, "device.hbm_gb_per_s", "1", kUnknown, ""},
      {"Vector", tiny, "device.vector_pass_ns", "99", kUnknown, ""},
      {"Window", tiny, "device.outstanding_stores", "1", kUnknown, ""},
      {"Zipf", zipf, "workload.gate.zipf_s", "2", kUnknown, ""},
      {"Tokens", tiny, "tokens", "9", kUnknown, ""},
      {"Context", model, "workload.context", "64", kUnknown, ""},
      {"Vocabulary", model, "workload.vocabulary", "64", kUnknown, ""},
      {"Attention", model, "workload.attention.heads", "64", kUnknown, ""},
      {"DenseSize", model, "workload.dense_intermediate", "64", kUnknown, ""},
  };
}

class ReadInput : public ::testing::TestWithParam<Case> {};

TEST_P(ReadInput, IsNotCalledIdle) {
  const Case& each = GetParam();
  const moe::Result first = run_result(each.base);
  moe::Result other = run_result(with(each.base, each.input, each.value));
  ASSERT_NE(first.digest(), other.digest()) << "this run does not read it either";
  EXPECT_THAT(explain_no_effect(each.input, first, other).reason(), HasSubstr("events moved"));
  other.set_digest(first.digest());
  EXPECT_EQ(explain_no_effect(each.input, first, other).could(), NoEffect::UNKNOWN)
      << explain_no_effect(each.input, first, other).reason();
}

INSTANTIATE_TEST_SUITE_P(Rules, ReadInput, ::testing::ValuesIn(read_inputs()),
                         [](const auto& each) { return std::string(each.param.name); });

// Layers that are not emulated move no event, but the step.
TEST(NoEffect, LayersOfAModelCount) {
  const moe::Result first = run_result(small_r1("model"));
  const moe::Result other = run_result(with(small_r1("model"), "workload.layers", "60"));
  EXPECT_EQ(first.digest(), other.digest());
  EXPECT_FALSE(same_latencies(first, other));
  EXPECT_LT(other.model().tpot_us(), first.model().tpot_us());
}

TEST(NoEffect, OtherPathsWithTheSameTimesAreSaid) {
  moe::Result first = simple_result("put", 5);
  moe::Result other = first;
  other.set_topology("u");
  (*first.mutable_counters())["puts_over_1_switches"] = 4;
  (*other.mutable_counters())["puts_over_3_switches"] = 4;
  const NoEffect effect = explain_no_effect("topology", first, other);
  EXPECT_EQ(effect.could(), NoEffect::COULD);
  EXPECT_THAT(effect.reason(), HasSubstr("the paths differ"));
}

// A short put goes by the other plane, which takes as long.
TEST(NoEffect, AnotherWayRoundWithTheSameTimesIsSaid) {
  const RunOptions whole = run_options("tiny", "p2p", "2", {"algorithm.bytes=4"});
  const moe::Result first = run_result(whole);
  const moe::Result other =
      run_result(with(whole, "fabric.failed_links", "device0-L1.node0.plane0"));
  EXPECT_TRUE(same_latencies(first, other));
  const NoEffect effect = explain_no_effect("fabric.failed_links", first, other);
  EXPECT_EQ(effect.could(), NoEffect::COULD);
  EXPECT_THAT(effect.reason(), HasSubstr("events moved"));
}

TEST(NoEffect, ResultsWithoutCountersProveNothing) {
  const moe::Result result = simple_result("put", 5);
  for (const char* input : {"fabric.clos.uplink.latency_ns", "device.fence_ns", "device.poll_ns",
                            "device.vector_pass_ns", "tokens", "workload.gate.zipf_s"}) {
    EXPECT_EQ(explain_no_effect(input, result, result).could(), NoEffect::UNKNOWN) << input;
  }
}

TEST(NoEffect, SeveralPairsCouldNotOnlyIfNoneCould) {
  moe::Result a = simple_result("put", 5);
  moe::Result b = a;
  for (moe::Result* result : {&a, &b}) {
    (*result->mutable_counters())["puts"] = 4;
    (*result->mutable_counters())["polls"] = result == &a ? 0 : 9;
  }
  const std::string input = "device.poll_ns";
  EXPECT_EQ(explain_no_effect(input, {{&a, &a}, {&a, &a}}).could(), NoEffect::COULD_NOT);
  EXPECT_EQ(explain_no_effect(input, {{&a, &a}, {&b, &b}}).could(), NoEffect::UNKNOWN);
  EXPECT_EQ(explain_no_effect(input, {{&b, &b}, {&a, &a}}).could(), NoEffect::UNKNOWN);
}

}  // namespace
}  // namespace orrery::cli
