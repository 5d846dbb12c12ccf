#include "cli/sweep_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace orrery::cli {

namespace {

using nlohmann::json;
using Row = std::vector<std::string>;

std::string shown(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    // Counters are whole; times have picoseconds.
    return number == static_cast<double>(static_cast<std::int64_t>(number)) && number >= 1e6
               ? fmt::format("{:.0f}", number)
               : fmt::format("{:.3f}", number);
  }
  return value.dump();
}

// Columns as wide as their widest cell, set right but for the first `left`.
std::string aligned(const std::vector<Row>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i])
                       : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> keys_of(const SweepPlan& plan) {
  std::vector<std::string> keys;
  for (const Axis& axis : plan.axes()) keys.push_back(axis.key);
  return keys;
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Points by their coordinates, but for that of one axis: each group differs in it alone.
std::map<std::vector<std::size_t>, std::vector<std::size_t>> without_axis(const SweepPlan& plan,
                                                                          std::size_t axis) {
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    std::vector<std::size_t> at = plan.coordinates(i);
    if (plan.zip()) {
      at.clear();  // all keys move together
    } else {
      at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    groups[at].push_back(i);
  }
  return groups;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string to_table(const SweepPlan& plan, const SweepResults& results) {
  const bool all_ok = std::all_of(results.points.begin(), results.points.end(),
                                  [](const PointResult& point) { return point.outcome == "ok"; });
  std::vector<Row> rows = {keys_of(plan)};
  rows.front().insert(rows.front().end(), results.metrics.begin(), results.metrics.end());
  if (!all_ok) rows.front().emplace_back("outcome");
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const PointResult& point = results.points[i];
    Row row;
    for (const auto& [name, value] : plan.varied(i)) row.push_back(value);
    for (const json& value : point.metrics) row.push_back(shown(value));
    if (!all_ok) row.push_back(point.outcome);
    rows.push_back(row);
  }
  return aligned(rows, 0);
}

std::string seed_spread(const SweepPlan& plan, const SweepResults& results) {
  const std::vector<std::string> keys = keys_of(plan);
  const auto seed = std::find(keys.begin(), keys.end(), "seed");
  if (plan.zip() || seed == keys.end()) return {};
  const auto axis = static_cast<std::size_t>(seed - keys.begin());
  if (plan.axes()[axis].values.size() < 2) return {};
  std::vector<Row> rows = {keys};
  rows.front().erase(rows.front().begin() + static_cast<std::ptrdiff_t>(axis));
  rows.front().insert(rows.front().end(), {"metric", "seeds", "min", "median", "max", "spread %"});
  for (const auto& [at, numbers] : without_axis(plan, axis)) {
    for (std::size_t m = 0; m < results.metrics.size(); ++m) {
      std::vector<double> values;
      for (const std::size_t number : numbers) {
        const json& value = results.points[number].metrics[m];
        if (value.is_number()) values.push_back(value.get<double>());
      }
      if (values.empty()) continue;
      std::sort(values.begin(), values.end());
      const double middle = median(values);
      Row row;
      for (const auto& [name, value] : plan.varied(numbers.front())) {
        if (name != "seed") row.push_back(value);
      }
      row.insert(
          row.end(),
          {results.metrics[m], std::to_string(values.size()), shown(values.front()), shown(middle),
           shown(values.back()),
           middle > 0 ? fmt::format("{:.1f}", 100 * (values.back() - values.front()) / middle)
                      : "-"});
      rows.push_back(row);
    }
  }
  if (rows.size() == 1) return {};
  return fmt::format("over {} seeds\n{}", plan.axes()[axis].values.size(),
                     aligned(rows, plan.axes().size()));
}

std::string unchanged_keys(const SweepPlan& plan, const SweepResults& results) {
  std::string out;
  const std::size_t axes = plan.zip() ? 1 : plan.axes().size();
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::size_t compared = 0;
    std::size_t same = 0;
    std::string example;
    for (const auto& [at, numbers] : without_axis(plan, axis)) {
      for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
        const PointResult& a = results.points[numbers[i]];
        const PointResult& b = results.points[numbers[i + 1]];
        if (a.fingerprint == 0 || b.fingerprint == 0) continue;
        ++compared;
        if (a.fingerprint != b.fingerprint) continue;
        if (same++ == 0) {
          example = fmt::format("{} and {}", plan.key(numbers[i]), plan.key(numbers[i + 1]));
        }
      }
    }
    if (same == 0) continue;
    const std::string name =
        plan.zip() ? fmt::format("{}", fmt::join(keys_of(plan), ", ")) : plan.axes()[axis].key;
    out += fmt::format("note: {} changed nothing in {} of {} comparison{}", name, same, compared,
                       compared == 1 ? "" : "s");
    out += same < compared ? fmt::format(", first {}\n", example) : "\n";
  }
  return out;
}

std::string summary(const SweepPlan& plan, const SweepResults& results) {
  const char* kOutcomes[] = {"ok", "not verified", "hang", "error", ""};
  std::vector<std::string> parts;
  std::string failed;
  for (const char* outcome : kOutcomes) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const PointResult& point = results.points[i];
      if (point.outcome != outcome) continue;
      ++count;
      if (point.outcome != "ok" && !point.outcome.empty())
        failed += fmt::format("FAILED {}: {}: {}\n", plan.key(i), point.outcome, point.error);
    }
    if (count > 0)
      parts.push_back(fmt::format("{} {}", count, *outcome == '\0' ? "not finished" : outcome));
  }
  return fmt::format("{} point{}: {}\n{}", plan.size(), plan.size() == 1 ? "" : "s",
                     fmt::join(parts, ", "), failed);
}

std::string to_csv(const SweepPlan& plan, const SweepResults& results) {
  Row header = keys_of(plan);
  header.emplace_back("outcome");
  header.insert(header.end(), results.metrics.begin(), results.metrics.end());
  header.emplace_back("error");
  std::string out;
  const auto add = [&out](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + csv_cell(row[i]);
    out += "\n";
  };
  add(header);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const PointResult& point = results.points[i];
    if (point.outcome.empty()) continue;
    Row row;
    for (const auto& [name, value] : plan.varied(i)) row.push_back(value);
    row.push_back(point.outcome);
    for (const json& value : point.metrics) {
      row.push_back(value.is_null()     ? ""
                    : value.is_string() ? value.get<std::string>()
                                        : value.dump());
    }
    row.push_back(point.error);
    add(row);
  }
  return out;
}

}  // namespace orrery::cli
