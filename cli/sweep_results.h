// What came of a sweep's points: the chosen metrics of each, in the order of the plan.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/sweep_folder.h"
#include "cli/sweep_plan.h"

namespace orrery::cli {

struct PointResult {
  std::string outcome;                  // empty: not finished
  std::string error;                    // its first line
  std::vector<nlohmann::json> metrics;  // null where the point has no such metric
  std::uint64_t fingerprint = 0;        // of everything that was computed; 0 if nothing was
};

struct SweepResults {
  std::vector<std::string> metrics;
  std::vector<PointResult> points;  // by number in the plan
};

/// Throws ConfigError (naming --metric) for a path that no result can have.
void check_metrics(const std::vector<std::string>& metrics);

/// The value at `path` in a result (as JSON): "dispatch.latency_us.max", "counters.puts",
/// "verified", "host.wall_seconds". Null if it has none.
nlohmann::json metric_of(const nlohmann::json& result, const std::string& path);

/// Reads the folder. No metrics: the largest latency of each operation, and whether it was
/// verified.
SweepResults read_results(const SweepPlan& plan, const SweepFolder& folder,
                          const std::vector<std::string>& metrics);

}  // namespace orrery::cli
