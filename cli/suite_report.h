// What `orrery validate` found: predictions beside published figures, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/suite_ranges.h"
#include "cli/suite_runs.h"
#include "moe/suite.pb.h"

namespace orrery::cli {

/// One row of a suite and what became of it.
struct SuiteEntry {
  moe::Row row;
  Prediction prediction;
  std::string skipped;           // why it did not run; then there is no prediction
  std::optional<Spread> spread;  // over assumed ranges, if asked for

  /// Relative error of the prediction in percent; only for a row with a published figure. That of a
  /// reduction is that of the ratio behind it: what is left of the baseline's latency.
  double error_percent() const;
};

/// Median of |error| over the predicted rows, in percent; 0 if there are none.
double median_error_percent(const std::vector<SuiteEntry>& entries);

std::string to_table(const moe::Suite& suite, const std::vector<SuiteEntry>& entries);
std::string to_json(const moe::Suite& suite, const std::vector<SuiteEntry>& entries);

}  // namespace orrery::cli
