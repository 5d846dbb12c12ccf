#include "cli/suite_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "moe/suite.h"

namespace orrery::cli {

namespace {

using moe::Row;

constexpr std::size_t kMovesListed = 3;

// For the median.
bool counts(const Row& row) { return row.role() == Row::PREDICTED && row.anomaly().empty(); }

std::vector<double> predicted_errors(const std::vector<SuiteEntry>& entries) {
  std::vector<double> errors;
  for (const SuiteEntry& entry : entries) {
    if (counts(entry.row)) errors.push_back(std::abs(entry.error_percent()));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const char* unit_of(const Row& row) {
  switch (row.metric()) {
    case Row::LATENCY:
      return " us";
    case Row::REDUCTION_PERCENT:
      return " %";
    case Row::RATIO:
    case Row::SPEEDUP:
      break;
  }
  return "";
}

// The lines of a table: the width of its first column, and whether it is of latencies alone.
class Lines {
 public:
  explicit Lines(const moe::Suite& suite) {
    for (const Row& row : suite.rows()) {
      width_ = std::max(width_, row.id().size());
      latencies_ = latencies_ && row.metric() == Row::LATENCY;
    }
  }

  std::string header() const {
    return fmt::format("  {:<{}} {:>12} {:>12} {:>9}\n", latencies_ ? "latency" : "prediction",
                       width_, latencies_ ? "predicted us" : "predicted",
                       latencies_ ? "published us" : "published", "error %");
  }

  std::string line(const SuiteEntry& entry) const {
    const Row& row = entry.row;
    if (!entry.skipped.empty())
      return fmt::format("  {:<{}} not run: {}\n", row.id(), width_, entry.skipped);
    std::string text =
        fmt::format("  {:<{}} {:>12}", row.id(), width_, number(row, entry.prediction.value));
    if (moe::has_published(row)) {
      text +=
          fmt::format(" {:>12} {:>+9.2f}", number(row, moe::published(row)), entry.error_percent());
    }
    if (row.metric() == Row::REDUCTION_PERCENT && moe::has_published(row)) {
      text += fmt::format("   {:+.2f} points", entry.prediction.value - moe::published(row));
    }
    if (!entry.prediction.picked.empty()) {
      text += row.has_pick() ? fmt::format("   {} at {}", lower(Row::Pick_Name(row.pick())),
                                           entry.prediction.picked)
                             : "   " + entry.prediction.picked;
    }
    return text + "\n";
  }

  // How far a prediction moves, and by what most.
  std::string spread(const SuiteEntry& entry) const {
    const Row& row = entry.row;
    const Spread& spread = *entry.spread;
    std::string text = fmt::format("  {:<{}} {:>12} to {}", row.id(), width_,
                                   number(row, spread.least), number(row, spread.most));
    std::size_t failed = 0;
    std::vector<std::string> listed;
    for (const Spread::Move& move : spread.moves) {
      failed += move.failed.empty() ? 0 : 1;
      if (!move.failed.empty() || listed.size() == kMovesListed) continue;
      listed.push_back(fmt::format("{} {}", number(row, move.value), move.setting));
    }
    if (!listed.empty()) text += fmt::format("   most by {}", fmt::join(listed, ", "));
    text += "\n";
    if (failed > 0) {
      const Spread::Move& first =
          *std::find_if(spread.moves.begin(), spread.moves.end(),
                        [](const auto& move) { return !move.failed.empty(); });
      text += fmt::format("  {:<{}} without {} of {} settings that did not run, e.g. {}: {}\n", "",
                          width_, failed, spread.runs, first.setting, first.failed);
    }
    return text;
  }

 private:
  std::string number(const Row& row, double value) const {
    return fmt::format("{:.3f}{}", value, latencies_ ? "" : unit_of(row));
  }

  std::size_t width_ = 22;
  bool latencies_ = true;
};

std::string section(const Lines& lines, const std::vector<SuiteEntry>& entries, Row::Role role,
                    const std::string& title) {
  std::string text;
  for (const SuiteEntry& entry : entries) {
    if (entry.row.role() == role && entry.row.anomaly().empty()) text += lines.line(entry);
  }
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

std::string anomalies(const Lines& lines, const std::vector<SuiteEntry>& entries) {
  std::string text;
  for (const SuiteEntry& entry : entries) {
    if (entry.row.anomaly().empty()) continue;
    text += lines.line(entry) + fmt::format("    {}\n", entry.row.anomaly());
  }
  if (text.empty()) return "";
  return "\nanomalous (declared before anything was predicted: no part of the median)\n" + text;
}

std::string starts(const Row& row) {
  if (row.align_iterations()) return "each iteration started everywhere at once";
  return row.align() ? "each operation started everywhere at once" : "devices drifting apart";
}

// How the rows were run and what was taken of the results; once, if all alike.
std::string how_run(const moe::Suite& suite) {
  std::set<std::string> ways;
  for (const Row& row : suite.rows()) {
    ways.insert(fmt::format(
        "{} over devices and {}, {}", lower(Row::Statistic_Name(row.statistic())),
        row.iterations() == 1 ? "one iteration" : fmt::format("{} iterations", row.iterations()),
        starts(row)));
  }
  return fmt::format("predicted: {}\n", fmt::join(ways, "; or "));
}

std::string spreads(const Lines& lines, const std::vector<SuiteEntry>& entries) {
  std::string text;
  std::size_t settings = 0;
  for (const SuiteEntry& entry : entries) {
    if (!entry.spread) continue;
    settings = entry.spread->runs;
    text += lines.spread(entry);
  }
  if (text.empty()) return "";
  return fmt::format("\nover all assumed ranges ({} settings, one at a time)\n{}", settings, text);
}

nlohmann::ordered_json row_json(const SuiteEntry& entry) {
  using Json = nlohmann::ordered_json;
  const Row& row = entry.row;
  Json line = {{"id", row.id()},
               {"role", Row::Role_Name(row.role())},
               {"topology", row.topology()},
               {"workload", row.workload()},
               {"algorithm", row.algorithm()},
               {"devices", row.devices()},
               {"settings", Json::array()},
               {"operation", row.operation()},
               {"statistic", Row::Statistic_Name(row.statistic())},
               {"metric", Row::Metric_Name(row.metric())}};
  for (const std::string& setting : row.settings()) line["settings"].push_back(setting);
  const std::string suffix = row.metric() == Row::LATENCY ? "_us" : "";
  if (entry.skipped.empty()) {
    line["predicted" + suffix] = entry.prediction.value;
    if (!entry.prediction.picked.empty()) line["picked"] = entry.prediction.picked;
  } else {
    line["skipped"] = entry.skipped;
  }
  if (moe::has_published(row)) {
    line["published" + suffix] = moe::published(row);
    line["error_percent"] = entry.error_percent();
    line["source"] = row.source();
    if (!row.anomaly().empty()) line["anomaly"] = row.anomaly();
  }
  if (entry.spread) {
    Json moves = Json::array();
    for (const Spread::Move& move : entry.spread->moves) {
      Json each = {{"setting", move.setting}};
      if (move.failed.empty()) each["predicted" + suffix] = move.value;
      if (!move.failed.empty()) each["failed"] = move.failed;
      moves.push_back(each);
    }
    line["spread"] = {{"settings", entry.spread->runs},
                      {"least", entry.spread->least},
                      {"most", entry.spread->most},
                      {"moves", moves}};
  }
  return line;
}

}  // namespace

double SuiteEntry::error_percent() const {
  const double figure = moe::published(row);
  const double value = prediction.value;
  if (row.metric() == Row::REDUCTION_PERCENT) return 100 * ((100 - value) / (100 - figure) - 1);
  return 100 * (value / figure - 1);
}

double median_error_percent(const std::vector<SuiteEntry>& entries) {
  const std::vector<double> errors = predicted_errors(entries);
  if (errors.empty()) return 0;
  const std::size_t half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

std::string to_table(const moe::Suite& suite, const std::vector<SuiteEntry>& entries) {
  std::string out =
      fmt::format("{}: {}\ntimed: {}\nbytes: {}\n{}\n", suite.name(), suite.description(),
                  suite.timed(), suite.byte_formula(), how_run(suite));
  const Lines lines(suite);
  out += lines.header();
  out += section(lines, entries, Row::CALIBRATES,
                 "calibrating (the machine's parameters were fitted to these)");
  out += section(lines, entries, Row::PREDICTED, "predicted");
  out += section(lines, entries, Row::CONTRADICTS,
                 "contradicting (sources disagree about the same run: no part of the median)");
  out += anomalies(lines, entries);
  out += section(lines, entries, Row::EXTRA, "predicted, compared with nothing");
  out += spreads(lines, entries);
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
  for (const SuiteEntry& entry : entries) json["rows"].push_back(row_json(entry));
  return json.dump(2) + "\n";
}

}  // namespace orrery::cli
