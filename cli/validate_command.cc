// orrery validate: predictions beside published measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "cli/output_file.h"
#include "cli/plugins.h"
#include "cli/suite_ranges.h"
#include "cli/suite_report.h"
#include "cli/suite_runs.h"
#include "emu/errors.h"
#include "moe/suite.h"

namespace orrery::cli {

namespace {

using moe::Row;

struct ValidateCommand {
  std::string suite = "ub-mesh";
  std::string ranges;
  std::string transport = "auto";
  std::vector<std::string> plugins;
  std::string json_file;

  int operator()(const emu::ProcessGroup& processes) const {
    load_plugins(processes, plugins);
    const std::string path = find_data_file("suites", suite, "--suite");
    const moe::Suite loaded = moe::load_suite(path);
    std::optional<SuiteRanges> assumed;
    if (!ranges.empty()) assumed.emplace(find_data_file("ranges", ranges, "--ranges"));
    const OutputFile json(processes, "--json", json_file);
    const bool root = processes.rank() == 0;
    const bool terminal = root && isatty(STDERR_FILENO) != 0;

    SuiteRuns runs(processes, transport, path);
    for (const Row& row : loaded.rows()) runs.check(row);  // all, before the first one runs
    if (assumed) assumed->check(runs, loaded);
    std::vector<SuiteEntry> entries;
    for (int i = 0; i < loaded.rows_size(); ++i) {
      const Row& row = loaded.rows(i);
      if (terminal) fmt::print(stderr, "\r{} of {}: {}\033[K", i + 1, loaded.rows_size(), row.id());
      SuiteEntry entry{row, {}, "", {}};
      try {
        entry.prediction = runs.predict(row);
        if (entry.prediction.code != kOk) {
          if (root) fmt::print(stderr, "orrery: {}: {}\n", row.id(), entry.prediction.failed);
          return entry.prediction.code;
        }
        if (assumed) entry.spread = assumed->spread(runs, row, entry.prediction.value);
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
};

}  // namespace

Command add_validate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("validate", "compare predictions with published measurements");
  auto validate = std::make_shared<ValidateCommand>();
  command->add_option("--suite", validate->suite,
                      "a shipped suite or a file; see orrery list suites");
  command->add_option("--ranges", validate->ranges,
                      "also run every row with each assumed parameter of this file (ranges/) at "
                      "each end of its range, one at a time, and show how far predictions move");
  command->add_option("--transport", validate->transport, "auto, local, ucx, ofi or mpi");
  add_plugin_option(*command, validate->plugins);
  command->add_option("--json", validate->json_file, "write the comparison there");
  return [validate](const emu::ProcessGroup& processes) { return (*validate)(processes); };
}

}  // namespace orrery::cli
