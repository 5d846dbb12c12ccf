// orrery validate: predictions beside published measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "cli/output_file.h"
#include "cli/plugins.h"
#include "cli/run_options.h"
#include "cli/suite_report.h"
#include "emu/errors.h"
#include "moe/run.h"
#include "moe/suite.h"

namespace orrery::cli {

namespace {

using moe::Row;

moe::RunConfig to_config(const Row& row, const std::string& transport,
                         const emu::ProcessGroup& processes) {
  RunOptions options;
  options.topology = row.topology();
  options.workload = row.workload();
  options.algorithm = row.algorithm();
  options.devices = std::to_string(row.devices());
  options.settings.assign(row.settings().begin(), row.settings().end());
  options.iterations = std::to_string(row.iterations());
  options.align = row.align();
  options.transport = transport;
  return options.to_config(processes);
}

double latency_us(const moe::Result& result, const Row& row) {
  for (const moe::Operation& operation : result.operations()) {
    if (operation.name() != row.operation()) continue;
    const moe::Latency& latency = operation.latency_us();
    switch (row.statistic()) {
      case Row::MAX:
        return latency.max();
      case Row::MEAN:
        return latency.mean();
      case Row::P50:
        return latency.p50();
      case Row::P99:
        return latency.p99();
      case Row::MIN:
        return latency.min();
    }
  }
  throw emu::ConfigError(row.id(), "operation", row.operation(),
                         "an operation of algorithm " + row.algorithm());
}

struct ValidateCommand {
  std::string suite = "ub-mesh";
  std::string transport = "auto";
  std::vector<std::string> plugins;
  std::string json_file;

  int operator()(const emu::ProcessGroup& processes) const {
    load_plugins(processes, plugins);
    const std::string path = find_data_file("suites", suite, "--suite");
    const moe::Suite loaded = moe::load_suite(path);
    const OutputFile json(processes, "--json", json_file);
    const bool root = processes.rank() == 0;
    const bool terminal = root && isatty(STDERR_FILENO) != 0;

    std::vector<moe::RunConfig> configs;  // all rows are checked before the first one runs
    for (const Row& row : loaded.rows()) configs.push_back(checked(path, row, processes));
    std::vector<SuiteEntry> entries;
    for (int i = 0; i < loaded.rows_size(); ++i) {
      const Row& row = loaded.rows(i);
      if (terminal) fmt::print(stderr, "\r{} of {}: {}\033[K", i + 1, loaded.rows_size(), row.id());
      SuiteEntry entry{row, 0, ""};
      try {
        const moe::RunOutcome outcome = moe::run(processes, configs[static_cast<std::size_t>(i)]);
        if (!outcome.hang.empty()) {
          if (root) fmt::print(stderr, "{}: {}", row.id(), outcome.hang);
          return kHang;
        }
        if (!outcome.result.verified()) {
          if (root) fmt::print(stderr, "orrery: {}: {}\n", row.id(), outcome.result.failures(0));
          return kFailed;
        }
        entry.predicted_us = latency_us(outcome.result, row);
      } catch (const emu::ConfigError& error) {
        // A small host may lack the memory for the largest rows; what is compared must run.
        if (row.role() != Row::EXTRA) throw;
        entry.skipped = error.what();
      }
      entries.push_back(entry);
    }
    if (terminal) fmt::print(stderr, "\r\033[K");
    if (root) {
      fmt::print("{}", to_table(loaded, entries));
      if (!json_file.empty()) json.write(to_json(loaded, entries));
    }
    return kOk;
  }

 private:
  // What is wrong with a row is wrong with the suite's file.
  moe::RunConfig checked(const std::string& path, const Row& row,
                         const emu::ProcessGroup& processes) const {
    try {
      return to_config(row, transport, processes);
    } catch (const emu::ConfigError& error) {
      throw emu::ConfigError(path + ": row " + row.id() + ": " + error.what());
    }
  }
};

}  // namespace

Command add_validate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("validate", "compare predictions with published measurements");
  auto validate = std::make_shared<ValidateCommand>();
  command->add_option("--suite", validate->suite,
                      "a shipped suite or a file; see orrery list suites");
  command->add_option("--transport", validate->transport, "auto, local, ucx, ofi or mpi");
  add_plugin_option(*command, validate->plugins);
  command->add_option("--json", validate->json_file, "write the comparison there");
  return [validate](const emu::ProcessGroup& processes) { return (*validate)(processes); };
}

}  // namespace orrery::cli
