#include "cli/suite_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace orrery::cli {

namespace {

using moe::Row;

std::vector<double> predicted_errors(const std::vector<SuiteEntry>& entries) {
  std::vector<double> errors;
  for (const SuiteEntry& entry : entries) {
    if (entry.row.role() == Row::PREDICTED) errors.push_back(std::abs(entry.error_percent()));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

std::string section(const std::vector<SuiteEntry>& entries, Row::Role role,
                    const std::string& title) {
  std::string lines;
  for (const SuiteEntry& entry : entries) {
    const Row& row = entry.row;
    if (row.role() != role) continue;
    if (!entry.skipped.empty()) {
      lines += fmt::format("  {:<22} not run: {}\n", row.id(), entry.skipped);
    } else if (role == Row::EXTRA) {
      lines += fmt::format("  {:<22} {:>12.3f}\n", row.id(), entry.predicted_us);
    } else {
      lines += fmt::format("  {:<22} {:>12.3f} {:>12.3f} {:>+9.2f}\n", row.id(), entry.predicted_us,
                           row.published_us(), entry.error_percent());
    }
  }
  return lines.empty() ? "" : fmt::format("\n{}\n{}", title, lines);
}

}  // namespace

double median_error_percent(const std::vector<SuiteEntry>& entries) {
  const std::vector<double> errors = predicted_errors(entries);
  if (errors.empty()) return 0;
  const std::size_t half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

std::string to_table(const moe::Suite& suite, const std::vector<SuiteEntry>& entries) {
  std::string out = fmt::format("{}: {}\ntimed: {}\nbytes: {}\n\n", suite.name(),
                                suite.description(), suite.timed(), suite.byte_formula());
  out += fmt::format("  {:<22} {:>12} {:>12} {:>9}\n", "latency", "predicted us", "published us",
                     "error %");
  out += section(entries, Row::CALIBRATES,
                 "calibrating (the machine's parameters were fitted to these)");
  out += section(entries, Row::PREDICTED, "predicted");
  out += section(entries, Row::EXTRA, "predicted, compared with nothing");
  const std::vector<double> errors = predicted_errors(entries);
  if (!errors.empty()) {
    out += fmt::format("\nmedian error of {} predicted row{}: {:.2f} %, largest {:.2f} %\n",
                       errors.size(), errors.size() == 1 ? "" : "s", median_error_percent(entries),
                       errors.back());
  }
  return out;
}

std::string to_json(const moe::Suite& suite, const std::vector<SuiteEntry>& entries) {
  using Json = nlohmann::ordered_json;
  Json json = {{"suite", suite.name()},
               {"description", suite.description()},
               {"timed", suite.timed()},
               {"byte_formula", suite.byte_formula()},
               {"median_error_percent", median_error_percent(entries)},
               {"rows", Json::array()}};
  for (const SuiteEntry& entry : entries) {
    const Row& row = entry.row;
    Json line = {{"id", row.id()},
                 {"role", Row::Role_Name(row.role())},
                 {"topology", row.topology()},
                 {"workload", row.workload()},
                 {"algorithm", row.algorithm()},
                 {"devices", row.devices()},
                 {"settings", Json::array()},
                 {"operation", row.operation()},
                 {"statistic", Row::Statistic_Name(row.statistic())}};
    for (const std::string& setting : row.settings()) line["settings"].push_back(setting);
    if (entry.skipped.empty()) {
      line["predicted_us"] = entry.predicted_us;
    } else {
      line["skipped"] = entry.skipped;
    }
    if (row.has_published_us()) {
      line["published_us"] = row.published_us();
      line["error_percent"] = entry.error_percent();
      line["source"] = row.source();
    }
    json["rows"].push_back(line);
  }
  return json.dump(2) + "\n";
}

}  // namespace orrery::cli
