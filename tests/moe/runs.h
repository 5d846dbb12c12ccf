// Whole runs for tests: small machines and workloads, and what came of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "devices/machine.h"
#include "emu/errors.h"
#include "emu/text_config.h"
#include "moe/run.h"
#include "moe/workload.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// An algorithm on a shipped topology, with settings as `--set` takes them.
inline RunConfig shipped_run(const std::string& topology, const std::string& algorithm,
                             std::uint32_t devices, const Settings& settings = {},
                             const Workload& workload = make_workload(8, 2, 4)) {
  RunConfig config;
  config.machine_file = "topologies/" + topology + ".textproto";
  config.machine = devices::load_machine(config.machine_file, settings);
  config.workload = workload;
  config.workload_file = "test";
  for (const auto& [field, value] : settings) {
    if (field.starts_with("workload."))
      emu::set_field(config.workload, field.substr(9), value, "--set");
  }
  config.algorithm = algorithm;
  config.devices = devices;
  config.settings = settings;
  return config;
}

/// A machine like tiny of any number of devices: one switch chip per plane and node, `cores` cores
/// each.
inline devices::Machine small_machine(std::uint32_t devices, std::uint32_t cores,
                                      std::uint32_t atomic_block_bytes = 64) {
  devices::Machine machine;
  const bool two_tiers = devices >= 4 && devices % 2 == 0;
  emu::parse_text(
      "name: 'small' fabric { atomic_block_bytes: " + std::to_string(atomic_block_bytes) +
          " order_scope: DEVICE_PAIR packet_bytes: 512 self_latency_ns: 100 adversary_delay_ns: "
          "20000 clos {"
          " nodes: " +
          std::to_string(two_tiers ? 2 : 1) +
          " devices_per_node: " + std::to_string(two_tiers ? devices / 2 : devices) +
          " planes: 2 device_link { latency_ns: 500 gb_per_s: 10 }"
          " uplink { latency_ns: 500 gb_per_s: 10 } } }"
          "device { cores: " +
          std::to_string(cores) +
          " launch_ns: 1000 host_sync_ns: 5000 local_atomic_ns: 20 issue_ns: 100 "
          "core_store_gb_per_s: 10 outstanding_stores: 4 fence_ns: "
          "20"
          " hbm_gb_per_s: 100 core_copy_gb_per_s: 20 copy_ns: 50 poll_ns: 20 barrier_ns: 200"
          " barrier_per_core_ns: 10 vector_pass_ns: 10 vector_elements_per_ns: 16 scalar_step_ns: 5"
          " matrix_tflop_per_s: 1 hub { service_ns: 2 entries: 3 miss_ns: 10 } }",
      "test", machine);
  devices::check_machine(machine, "test");
  return machine;
}

inline RunConfig small_run(const std::string& algorithm, std::uint32_t devices, std::uint32_t cores,
                           const Workload& workload) {
  RunConfig config;
  config.machine = small_machine(devices, cores);
  config.machine_file = "test";
  config.workload = workload;
  config.workload_file = "test";
  config.algorithm = algorithm;
  config.devices = devices;
  config.iterations = 3;
  return config;
}

inline RunOutcome run_alone(const RunConfig& config) { return run(emu::ProcessGroup(), config); }

inline std::string failures_of(const Result& result) {
  std::string text;
  for (const std::string& failure : result.failures()) text += failure + "\n";
  return text;
}

/// Runs, and expects a verified result.
inline Result good_run(const RunConfig& config) {
  const RunOutcome outcome = run_alone(config);
  EXPECT_EQ(outcome.hang, "");
  EXPECT_TRUE(outcome.result.verified()) << failures_of(outcome.result);
  return outcome.result;
}

/// Whether a run that must not pass is reported in one way or another.
inline bool is_caught(const RunConfig& config) {
  try {
    const RunOutcome outcome = run_alone(config);
    return !outcome.hang.empty() || !outcome.result.verified();
  } catch (const emu::InvariantError&) {
    return true;  // e.g. read what was given up
  }
}

/// With how many of the adversary's seeds 1 to `seeds` a run that must not pass is reported.
inline int times_caught(RunConfig config, std::uint64_t seeds) {
  int caught = 0;
  config.adversary = true;
  for (config.seed = 1; config.seed <= seeds; ++config.seed) caught += is_caught(config) ? 1 : 0;
  return caught;
}

inline std::string findings_of(const Result& result) {
  std::string text;
  for (const OrderFinding& finding : result.check().findings()) text += finding.text() + "\n";
  return text;
}

/// Runs under the check, without and with the adversary; expects verified results and no finding.
inline void expect_clean(RunConfig config) {
  config.check = true;
  for (const bool adversary : {false, true}) {
    config.adversary = adversary;
    const Result result = good_run(config);
    EXPECT_EQ(findings_of(result), "") << (adversary ? "adversary" : "");
    EXPECT_GT(result.check().accesses(), 0);
  }
}

/// Routing by hand: the experts of each token in turn, dealt to the devices in order; -1 is masked.
inline Workload routed(Workload workload, const std::vector<std::vector<int>>& tokens) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->name()) + std::to_string(getpid()) + ".jsonl";
  std::replace(name.begin(), name.end(), '/', '.');
  const std::string path = testing::TempDir() + name;
  std::ofstream out(path);
  for (const std::vector<int>& token : tokens) {
    out << R"({"type":"route","req_id":"r","token_idx":0,"layer":0,"topk_ids":[)";
    for (std::size_t k = 0; k < token.size(); ++k) out << (k > 0 ? "," : "") << token[k];
    out << R"(],"topk_weights":[)";
    for (std::size_t k = 0; k < token.size(); ++k)
      out << (k > 0 ? "," : "") << 1.0 / static_cast<double>(k + 2);
    out << "]}\n";
  }
  workload.mutable_gate()->set_kind(Gate::TRACE);
  workload.mutable_gate()->set_trace_file(path);
  return workload;
}

/// Microseconds of a result back to picoseconds.
inline std::int64_t to_ps(double us) { return std::llround(us * 1e6); }

}  // namespace orrery::moe
