#include "cli/suite_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "emu/errors.h"
#include "moe/suite.h"

namespace orrery::cli {

SuiteRanges::SuiteRanges(const std::string& path) : path_(path), ranges_(moe::load_ranges(path)) {
  for (const moe::AssumedRange& range : ranges_.ranges()) {
    for (const std::string& value : range.values())
      settings_.push_back(range.field() + "=" + value);
  }
}

void SuiteRanges::check(const SuiteRuns& runs, const moe::Suite& suite) const {
  for (const moe::Row& row : suite.rows()) {
    if (row.topology() != ranges_.topology()) {
      throw emu::ConfigError("--ranges", "topology", ranges_.topology(),
                             "that of row " + row.id() + ", " + row.topology());
    }
  }
  for (const std::string& setting : settings_) {
    try {
      runs.check(suite.rows(0), {setting});
    } catch (const emu::ConfigError& error) {
      throw emu::ConfigError(path_ + ": " + error.what());
    }
  }
}

Spread SuiteRanges::spread(SuiteRuns& runs, const moe::Row& row, double prediction) const {
  Spread spread{prediction, prediction, {}, settings_.size()};
  for (const std::string& setting : settings_) {
    Spread::Move move{setting, prediction, ""};
    try {
      const Prediction moved = runs.predict(row, {setting});
      move.value = moved.value;
      if (moved.code == kHang) move.failed = "a hang";
      if (moved.code == kFailed) move.failed = moved.failed;
    } catch (const emu::ConfigError& error) {
      move.failed = error.what();
    }
    if (move.failed.empty()) {
      spread.least = std::min(spread.least, move.value);
      spread.most = std::max(spread.most, move.value);
    }
    if (!move.failed.empty() || move.value != prediction) spread.moves.push_back(move);
  }
  std::stable_sort(spread.moves.begin(), spread.moves.end(), [&](const auto& a, const auto& b) {
    if (a.failed.empty() != b.failed.empty()) return a.failed.empty();
    return std::abs(a.value - prediction) > std::abs(b.value - prediction);
  });
  return spread;
}

}  // namespace orrery::cli
