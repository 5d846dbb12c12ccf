// How far the predictions of a suite move when each assumed parameter goes to each end of its
// range, one at a time.
#pragma once

#include <string>
#include <vector>

#include "cli/suite_runs.h"
#include "moe/suite.pb.h"

namespace orrery::cli {

/// A prediction under all the settings of a file of ranges.
struct Spread {
  struct Move {
    std::string setting;  // "device.launch_ns=8000"
    double value = 0;     // the prediction with it
    std::string failed;   // why there is none
  };
  double least = 0;  // of all that ran, the prediction itself included
  double most = 0;
  std::vector<Move> moves;  // those that changed it or failed, the largest change first
  std::size_t runs = 0;     // settings tried
};

class SuiteRanges {
 public:
  /// Throws ConfigError for a file that is wrong by itself.
  explicit SuiteRanges(const std::string& path);

  /// Throws ConfigError if a row is of a topology that the ranges are not of, or its runs refuse a
  /// setting as such (no such field, a value out of range).
  void check(const SuiteRuns& runs, const moe::Suite& suite) const;

  /// Collective, as SuiteRuns::predict(). A setting that some run refuses, hangs or fails under is
  /// told, not thrown.
  Spread spread(SuiteRuns& runs, const moe::Row& row, double prediction) const;

 private:
  const std::string path_;
  const moe::AssumedRanges ranges_;
  std::vector<std::string> settings_;
};

}  // namespace orrery::cli
