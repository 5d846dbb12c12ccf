// The runs behind the rows of a suite, each distinct one run once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "emu/process_group.h"
#include "moe/suite.pb.h"

namespace orrery::cli {

/// What a row comes to: a number in the unit of its metric, or why there is none.
struct Prediction {
  double value = 0;
  int code = 0;        // kOk, or the exit code of a run that hung or is not verified
  std::string failed;  // what it then said
  std::string picked;  // "dbrx on 4 devices, 32 tokens", if the row has several of them
};

class SuiteRuns {
 public:
  /// `path`: the suite's file, for messages.
  SuiteRuns(const emu::ProcessGroup& processes, std::string transport, std::string path)
      : processes_(processes), transport_(std::move(transport)), path_(std::move(path)) {}

  /// Everything about the row's runs that can be checked without them. Throws ConfigError.
  void check(const moe::Row& row, const std::vector<std::string>& settings = {}) const;

  /// Runs what has not run yet; `settings` go on top of all of the row's. Collective. Throws
  /// ConfigError for what the runs themselves refuse (too little memory).
  Prediction predict(const moe::Row& row, const std::vector<std::string>& settings = {});

 private:
  struct Ran {
    moe::Result result;
    int code = 0;
    std::string failed;
  };

  RunOptions options_of(const moe::Row& row, const std::string& tokens,
                        const std::vector<std::string>& settings) const;
  moe::RunConfig config_of(const moe::Row& row, const std::string& tokens,
                           const std::vector<std::string>& settings) const;
  const Ran& run(const moe::Row& row, const std::string& tokens,
                 const std::vector<std::string>& settings);
  Prediction latency(const moe::Row& row, const std::string& tokens,
                     const std::vector<std::string>& settings);
  Prediction fastest_baseline(const moe::Row& row, const std::string& tokens,
                              const std::vector<std::string>& settings);
  Prediction at(const moe::Row& row, const std::string& tokens,
                const std::vector<std::string>& settings);

  const emu::ProcessGroup& processes_;
  const std::string transport_;
  const std::string path_;
  std::map<std::string, Ran> ran_;  // by everything that a run is made of
};

}  // namespace orrery::cli
