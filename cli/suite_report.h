// What `orrery validate` found: predictions beside published figures, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "moe/suite.pb.h"

namespace orrery::cli {

/// One row of a suite and what became of it.
struct SuiteEntry {
  moe::Row row;
  double predicted_us = 0;
  std::string skipped;  // why it did not run; then there is no prediction

  /// Relative error of the prediction in percent; only for a row with a published figure.
  double error_percent() const { return 100 * (predicted_us / row.published_us() - 1); }
};

/// Median of |error| over the predicted rows, in percent; 0 if there are none.
double median_error_percent(const std::vector<SuiteEntry>& entries);

std::string to_table(const moe::Suite& suite, const std::vector<SuiteEntry>& entries);
std::string to_json(const moe::Suite& suite, const std::vector<SuiteEntry>& entries);

}  // namespace orrery::cli
