// Whole runs in one process, payload verified: what a user waits for.
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "devices/machine.h"
#include "moe/run.h"
#include "moe/workload.h"

namespace {

using namespace orrery;

moe::RunConfig config_of(const std::string& topology, const std::string& workload,
                         const std::string& algorithm, std::uint32_t devices) {
  const std::string root = ORRERY_SOURCE_DATA;
  moe::RunConfig config;
  config.machine_file = root + "/topologies/" + topology + ".textproto";
  config.machine = devices::load_machine(config.machine_file, {});
  config.workload_file = root + "/workloads/" + workload + ".textproto";
  config.workload = moe::load_workload(config.workload_file);
  config.algorithm = algorithm;
  config.devices = devices;
  return config;
}

void run(benchmark::State& state, const moe::RunConfig& config) {
  double events = 0;
  for (auto _ : state) {
    const emu::ProcessGroup alone;
    const moe::RunOutcome outcome = moe::run(alone, config);
    if (!outcome.result.verified()) throw std::runtime_error("a benchmark run was not verified");
    events += outcome.result.host().events();
    state.counters["peak_rss_mib"] = outcome.result.host().peak_rss_mib();
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

// 14,336 B per pair between 256 devices, 50 GB/s each, 700 ns.
void alltoall_star(benchmark::State& state) {
  run(state, config_of("star", "tiny", "alltoall", 256));
}
BENCHMARK(alltoall_star)->Unit(benchmark::kSecond)->UseRealTime();

// Dispatch, experts and combine of DeepSeek-R1, 128 tokens per die.
void cann_bsp_cm384(benchmark::State& state) {
  auto config =
      config_of("cm384", "deepseek-r1", "cann-bsp", static_cast<std::uint32_t>(state.range(0)));
  config.workload.set_tokens(128);
  run(state, config);
}
BENCHMARK(cann_bsp_cm384)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Iterations(1)
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
