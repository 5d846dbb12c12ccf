// What a result says about time adds up: for every algorithm and topology, with devices that drift.
#include <gtest/gtest.h>

#include <tuple>

#include "moe/algorithm.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

struct Machine {
  const char* topology;
  std::uint32_t devices;
  const char* placement;
};
const Machine kMachines[] = {
    {"tiny", 4, "packed"},   {"star", 7, "packed"},  {"ascend950-mesh8", 8, "packed"},
    {"cm384", 24, "packed"}, {"cm384", 6, "spread"},
};

class Breakdown : public testing::TestWithParam<std::tuple<Machine, double, bool>> {};

TEST_P(Breakdown, SumsToTheLatencyExactly) {
  const auto& [machine, jitter_ns, adversary] = GetParam();
  for (const AlgorithmEntry& entry : algorithms()) {
    if (entry.name.starts_with("test-")) continue;  // of other tests in this program
    Workload workload = make_workload(12, 3, 9, 100, 16);
    workload.set_jitter_ns(jitter_ns);
    // An ordering-sensitive algorithm cannot run on star, whose fabric keeps no order; that is not
    // the question.
    Settings settings = {{"fabric.order_scope", "DEVICE_PAIR"}};
    // Nor can one that takes 512 bytes to be atomic run everywhere.
    if (entry.name == "ubep") settings.push_back({"algorithm.flag", "dc"});
    if (entry.name == "trtllm-twosided") settings.push_back({"fabric.atomic_block_bytes", "128"});
    if (entry.name == "moe-hub") settings.push_back({"device.hub.service_ns", "50"});
    // Nor one whose cores have different parts on a device of one.
    const bool has_roles =
        entry.name == "flashmoe" || entry.name == "fastermoe" || entry.name == "comet";
    if (has_roles && std::string(machine.topology) == "star") {
      settings.push_back({"device.cores", "4"});
    }
    RunConfig config =
        shipped_run(machine.topology, entry.name, machine.devices, settings, workload);
    config.placement = machine.placement;
    config.iterations = 4;
    config.adversary = adversary;
    // With its gate, where rows move: gate, dispatch, experts and combine, or one kernel.
    if (entry.moves_rows && jitter_ns == 3'000.0) config.operation = "layer";
    const Result result = good_run(config);
    for (const Operation& operation : result.operations()) {
      const std::string where = entry.name + " " + operation.name() + " on " + machine.topology;
      std::int64_t sum = 0;
      for (const auto& [part, us] : operation.breakdown_us()) {
        EXPECT_GT(us, 0) << part;
        sum += to_ps(us);
      }
      EXPECT_EQ(sum, to_ps(operation.latency_us().max())) << where;
      // Every core is somewhere at any time of its kernel.
      double core_time = 0;
      for (const auto& [category, us] : operation.core_time_us()) core_time += us;
      if (operation.name() != "layer" || config.operation.empty()) {  // between kernels it is not
        EXPECT_NEAR(core_time, operation.latency_us().mean(), 1e-6 * operation.latency_us().mean())
            << where;
      }
      EXPECT_LE(operation.latency_us().min(), operation.latency_us().p50());
      EXPECT_LE(operation.latency_us().p50(), operation.latency_us().p99());
      EXPECT_LE(operation.latency_us().p99(), operation.latency_us().max());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Breakdown,
                         testing::Combine(testing::ValuesIn(kMachines),
                                          testing::Values(0.0, 3'000.0, 100'000.0),
                                          testing::Bool()));

}  // namespace
}  // namespace orrery::moe
