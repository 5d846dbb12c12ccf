#include "moe/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <type_traits>
#include <vector>

#include "devices/cost.h"
#include "emu/text_config.h"
#include "fabric/topology.h"

namespace orrery::moe {

namespace {

using devices::Cost;

// Plain data, sent from process 0 to the others.
struct Candidate {
  std::uint32_t operation = 0;
  Cost cost = Cost::kNone;
  emu::Time latency = 0;
  emu::Time share = 0;
  emu::Time estimate = 0;
};
static_assert(std::is_trivially_copyable_v<Candidate>);

// The costs that gain most, for each operation, by the causal graph.
std::vector<Candidate> candidates(const RunOutcome& outcome) {
  const devices::CausalHistory& history = outcome.history;
  const auto operations = static_cast<std::uint32_t>(outcome.paths.size());
  std::vector<Candidate> all;
  std::vector<emu::Time> measured(operations);
  std::vector<std::array<emu::Time, devices::kCosts>> shares(operations);
  const std::vector<emu::Time> times = history.graph.times_without(Cost::kNone);
  for (std::uint32_t operation = 0; operation < operations; ++operation) {
    const std::uint32_t iteration = outcome.result.operations(operation).slowest_iteration();
    const devices::KernelRange kernels = outcome.spans[operation].stages;
    measured[operation] = devices::slowest(history, times, kernels, iteration);
    emu::Time start = 0;
    devices::PointId end = 0;
    for (const devices::KernelPoints& kernel : history.kernels) {
      if (kernel.iteration != iteration || kernel.rank != outcome.paths[operation].rank) continue;
      if (kernel.operation == kernels.first) start = times[kernel.start];
      if (kernel.operation == kernels.last) end = kernel.end;
    }
    shares[operation] = history.graph.shares(end, start);
  }
  std::array<bool, devices::kCosts> occurs = history.graph.costs();
  occurs[static_cast<std::size_t>(Cost::kLateStart)] = true;
  for (std::size_t index = 1; index < devices::kCosts; ++index) {
    if (!occurs[index]) continue;
    const auto cost = static_cast<Cost>(index);
    const std::vector<emu::Time> without = history.graph.times_without(cost);
    for (std::uint32_t operation = 0; operation < operations; ++operation) {
      const std::uint32_t iteration = outcome.result.operations(operation).slowest_iteration();
      const emu::Time estimate =
          measured[operation] -
          devices::slowest(history, without, outcome.spans[operation].stages, iteration);
      if (estimate <= 0) continue;
      all.push_back({operation, cost, measured[operation], shares[operation][index], estimate});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.operation != b.operation ? a.operation < b.operation : a.estimate > b.estimate;
  });
  std::vector<Candidate> best;
  std::vector<std::size_t> taken(operations, 0);
  for (const Candidate& each : all) {
    if (taken[each.operation]++ < kExplainedCosts) best.push_back(each);
  }
  return best;
}

// Process 0's list, everywhere.
std::vector<Candidate> share_out(const emu::ProcessGroup& processes, std::vector<Candidate> mine) {
  std::uint64_t count = mine.size();
  processes.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0);
  mine.resize(count);
  processes.broadcast(std::as_writable_bytes(std::span(mine)), 0);
  return mine;
}

std::string removed_by(const devices::CostRemoval& removal) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  for (const auto& [field, value] : removal.settings) add(field + "=" + value);
  if (removal.align) add("--align");
  if (removal.what_if.links.latency != 0) add("links of 1 ns");
  if (removal.what_if.links.bandwidth != 0) add("links without limit");
  if (removal.what_if.free_compute) add("no time to compute");
  return text;
}

}  // namespace

RunConfig without(RunConfig config, Cost cost) {
  const devices::CostRemoval removal = devices::removal_of(cost);
  for (const auto& [field, value] : removal.settings) {
    if (field.starts_with("workload.")) {
      emu::set_field(config.workload, field.substr(9), value, "--explain");
    } else {
      emu::set_field(config.machine, field, value, "--explain");
    }
  }
  config.what_if.links.latency |= removal.what_if.links.latency;
  config.what_if.links.bandwidth |= removal.what_if.links.bandwidth;
  config.what_if.free_compute |= removal.what_if.free_compute;
  // Threads look ahead by a latency, too; without it they would only wait for each other.
  if (removal.what_if.links.latency != 0) config.threads = 1;
  if (removal.align) config.alignment = devices::Alignment::kOperations;
  config.explain = false;
  return config;
}

bool explain(const emu::ProcessGroup& processes, const RunConfig& config, RunOutcome& outcome) {
  const bool root = processes.rank() == 0;
  std::vector<Candidate> chosen;
  if (!outcome.history.complete || config.adversary || !outcome.result.verified()) return true;
  if (root) chosen = candidates(outcome);
  chosen = share_out(processes, std::move(chosen));
  outcome.history.graph = devices::CausalGraph();  // large, and not needed any more

  const std::vector<std::string> classes =
      fabric::build_topology(config.machine.fabric(), config.machine_file).link_classes;
  std::map<Cost, RunOutcome> runs;
  for (const Candidate& each : chosen) runs[each.cost];
  std::size_t number = 0;
  for (auto& [cost, run_outcome] : runs) {
    RunConfig changed = without(config, cost);
    const std::string what = fmt::format("explaining: run {} of {}, without {}", ++number,
                                         runs.size(), devices::name_of(cost, classes));
    if (config.progress) {
      config.progress(what);
      changed.progress = [&config, what](const std::string& line) {
        config.progress(what + ": " + line);
      };
    }
    run_outcome = run(processes, changed);
  }
  bool verified = true;
  for (const Candidate& each : chosen) {
    const Operation& operation = outcome.result.operations(static_cast<int>(each.operation));
    const RunOutcome& rerun = runs[each.cost];
    Explanation& out = *outcome.result.add_explanations();
    out.set_operation(operation.name());
    out.set_item(devices::name_of(each.cost, classes));
    out.set_removed_by(removed_by(devices::removal_of(each.cost)));
    out.set_latency_us(emu::to_us(each.latency));
    out.set_share_us(emu::to_us(each.share));
    out.set_estimate_us(emu::to_us(each.estimate));
    out.set_rerun_verified(rerun.hang.empty() && rerun.result.verified());
    if (rerun.hang.empty()) {
      out.set_rerun_us(
          emu::to_us(each.latency - rerun.slowest[operation.slowest_iteration()][each.operation]));
    }
    verified = verified && out.rerun_verified();
  }
  return verified;
}

}  // namespace orrery::moe
