#include "cli/sweep_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "emu/digest.h"
#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::cli {

namespace {

using nlohmann::json;

std::vector<std::string> field_names(const google::protobuf::Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return names;
}

// The value at a dotted path below `value`. Keys of maps may hold dots themselves.
json walk(const json& value, const std::string& path) {
  if (!value.is_object()) return nullptr;
  if (const auto it = value.find(path); it != value.end()) return *it;
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto it = value.find(path.substr(0, dot));
  return it == value.end() ? json(nullptr) : walk(*it, path.substr(dot + 1));
}

std::uint64_t fingerprint(const json& result) {
  std::string text;
  for (const char* part : {"operations", "counters", "busiest_links", "virtual_time_us", "verified",
                           "digest", "output_digest"}) {
    if (result.contains(part)) text += result[part].dump();
    text += '\n';
  }
  return emu::digest_bytes(std::as_bytes(std::span<const char>(text)));
}

std::vector<std::string> default_metrics(const SweepFolder& folder) {
  std::vector<std::string> operations;
  folder.for_each_point([&](const json& point) {
    for (const json& operation : walk(point, "result.operations")) {
      const std::string name = operation.value("name", "");
      if (std::find(operations.begin(), operations.end(), name) == operations.end())
        operations.push_back(name);
    }
  });
  std::vector<std::string> metrics;
  for (const std::string& name : operations) metrics.push_back(name + ".latency_us.max");
  metrics.emplace_back("verified");
  return metrics;
}

}  // namespace

void check_metrics(const std::vector<std::string>& metrics) {
  const auto refuse = [](const std::string& metric, const std::string& word,
                         const std::vector<std::string>& known) {
    throw emu::ConfigError("--metric", "", metric,
                           fmt::format("OPERATION.latency_us.max or the like, with one of {}{}",
                                       fmt::join(known, ", "), emu::did_you_mean(word, known)));
  };
  for (const std::string& metric : metrics) {
    const std::vector<std::string> top = field_names(moe::Result::descriptor());
    const std::size_t dot = metric.find('.');
    const std::string first = metric.substr(0, dot);
    if (std::find(top.begin(), top.end(), first) != top.end()) continue;
    if (dot == std::string::npos) refuse(metric, first, top);
    const std::string rest = metric.substr(dot + 1);
    const std::string field = rest.substr(0, rest.find('.'));
    const std::vector<std::string> known = field_names(moe::Operation::descriptor());
    if (std::find(known.begin(), known.end(), field) == known.end()) refuse(metric, field, known);
    if (field != "latency_us") continue;
    const std::vector<std::string> statistics = field_names(moe::Latency::descriptor());
    const std::string statistic = rest.size() > field.size() ? rest.substr(field.size() + 1) : "";
    if (std::find(statistics.begin(), statistics.end(), statistic) == statistics.end())
      refuse(metric, statistic, statistics);
  }
}

json metric_of(const json& result, const std::string& path) {
  const std::size_t dot = path.find('.');
  json value = walk(result, path);
  if (dot != std::string::npos && result.contains("operations")) {
    for (const json& operation : result["operations"]) {
      if (operation.value("name", "") == path.substr(0, dot))
        value = walk(operation, path.substr(dot + 1));
    }
  }
  return value.is_structured() ? json(nullptr) : value;
}

SweepResults read_results(const SweepPlan& plan, const SweepFolder& folder,
                          const std::vector<std::string>& metrics) {
  SweepResults results;
  results.metrics = metrics.empty() ? default_metrics(folder) : metrics;
  results.points.resize(plan.size());
  std::unordered_map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < plan.size(); ++i) numbers.emplace(plan.key(i), i);
  folder.for_each_point([&](const json& line) {
    const auto it = numbers.find(line["key"].get<std::string>());
    if (it == numbers.end()) return;
    PointResult& point = results.points[it->second];
    point.outcome = line["outcome"].get<std::string>();
    point.error = line["error"].get<std::string>();
    point.error.resize(std::min(point.error.size(), point.error.find('\n')));
    const json result = line.value("result", json::object());
    if (!result.empty()) point.fingerprint = fingerprint(result) | 1;
    for (const std::string& metric : results.metrics)
      point.metrics.push_back(metric_of(result, metric));
  });
  for (PointResult& point : results.points) point.metrics.resize(results.metrics.size());
  return results;
}

}  // namespace orrery::cli
