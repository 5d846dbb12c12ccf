#include "cli/explanation_text.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/path_lines.h"

namespace orrery::cli {

namespace {

// The costs of one operation as a small table.
std::string gains(const moe::Result& result, const std::string& operation) {
  std::string out;
  for (const moe::Explanation& each : result.explanations()) {
    if (each.operation() != operation) continue;
    const double percent = each.latency_us() > 0 ? 100 / each.latency_us() : 0;
    if (out.empty()) {
      out =
          fmt::format("  what would shorten {} most, of {:.3f} us\n", operation, each.latency_us());
      out += fmt::format("  {:<32} {:>9} {:>12} {:>8} {:>12} {:>8}   {}\n", "without", "on path",
                         "estimate us", "%", "re-run us", "%", "as set by");
    }
    out += fmt::format("  {:<32} {:>9.3f} {:>12.3f} {:>8.1f} {:>12.3f} {:>8.1f}   {}{}\n",
                       each.item(), each.share_us(), each.estimate_us(),
                       percent * each.estimate_us(), each.rerun_us(), percent * each.rerun_us(),
                       each.removed_by(), each.rerun_verified() ? "" : "  NOT VERIFIED");
  }
  return out;
}

// Is some estimate more than a fifth away from its re-run?
bool disagree(const moe::Result& result) {
  for (const moe::Explanation& each : result.explanations()) {
    if (std::abs(each.estimate_us() - each.rerun_us()) > 0.2 * std::abs(each.rerun_us()))
      return true;
  }
  return false;
}

}  // namespace

std::string to_explanation(const moe::RunOutcome& outcome, const fabric::Topology& topology,
                           const moe::RunConfig& config) {
  const moe::Result& result = outcome.result;
  const PathLines lines(devices::part_names(topology), topology.link_classes, outcome.history.puts,
                        config.machine.device().service_core_put_ns() > 0);
  std::string out;
  for (int i = 0; i < result.operations_size(); ++i) {
    const moe::Operation& operation = result.operations(i);
    const devices::CriticalPath& path = outcome.paths[static_cast<std::size_t>(i)];
    out += fmt::format(
        "\n{}: the {:.3f} us of device {} in iteration {}, step by step (us since it began, us "
        "that "
        "it took)\n",
        operation.name(), operation.latency_us().max(), path.rank, operation.slowest_iteration());
    if (path.steps.size() >= devices::CriticalPath::kMaxSteps) {
      out += fmt::format("  ... only the last {} steps are known\n", path.steps.size());
    }
    out += lines.text(path.steps, kPathLines);
    out += gains(result, operation.name());
  }
  if (disagree(result) && config.machine.fabric().plane_choice() != fabric::Fabric::SINGLE) {
    out +=
        "\nWhere the re-run gains much more or less than estimated: with other times a device's "
        "puts "
        "come in another order and get other planes, by turns, so that queues differ too.\n";
  }
  if (!result.verified()) {
    out += "\nThe run is not verified: nothing was tried without its cost.\n";
  } else if (config.adversary) {
    out += "\nWith --adversary no cost is to blame for a delay: nothing to remove.\n";
  } else if (!outcome.history.complete) {
    out +=
        "\nThe run is too large to keep all causes: no estimates and no re-runs. The breakdown "
        "above "
        "says how much each part can gain at most.\n";
  }
  return out;
}

}  // namespace orrery::cli
