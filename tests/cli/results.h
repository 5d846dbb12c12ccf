// Results that tests compare: of real runs, and made by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/run_options.h"
#include "cli/sweep.pb.h"
#include "moe/run.h"

namespace orrery::cli {

/// What `orrery run` would report, with `settings` as --set takes them.
inline moe::Result run_result(const RunOptions& options) {
  const emu::ProcessGroup alone;
  return moe::run(alone, options.to_config(alone)).result;
}

inline RunOptions run_options(const std::string& topology, const std::string& algorithm,
                              const std::string& devices = "",
                              const std::vector<std::string>& settings = {}) {
  RunOptions options;
  options.topology = topology;
  options.algorithm = algorithm;
  if (!devices.empty()) options.devices = devices;
  options.settings = settings;
  return options;
}

/// A verified result with one operation of this latency, all of it compute.
inline moe::Result simple_result(const std::string& operation, double max_us) {
  moe::Result result;
  result.set_topology("t");
  result.set_digest("0123456789abcdef");
  result.set_output_digest("fedcba9876543210");
  result.set_verified(true);
  moe::Operation& out = *result.add_operations();
  out.set_name(operation);
  moe::Latency& latency = *out.mutable_latency_us();
  for (const auto set : {&moe::Latency::set_min, &moe::Latency::set_mean, &moe::Latency::set_p50,
                         &moe::Latency::set_p99, &moe::Latency::set_max}) {
    (latency.*set)(max_us);
  }
  (*out.mutable_breakdown_us())["compute"] = max_us;
  return result;
}

/// A sweep's point that is ok; its result has the varied values as settings.
inline PointRecord simple_point(const std::vector<std::pair<std::string, std::string>>& varied,
                                const moe::Result& result) {
  PointRecord point;
  point.set_outcome("ok");
  *point.mutable_result() = result;
  std::string key;
  for (const auto& [name, value] : varied) {
    Varied& each = *point.add_varied();
    each.set_name(name);
    each.set_value(value);
    (*point.mutable_result()->mutable_settings())[name] = value;
    key += (key.empty() ? "" : " ") + name + "=" + value;
  }
  point.set_key(key);
  return point;
}

}  // namespace orrery::cli
