// orrery compare: results or sweeps side by side, and why they differ.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/comparison_json.h"
#include "cli/comparison_table.h"
#include "cli/output_file.h"

namespace orrery::cli {

namespace {

struct CompareCommand {
  std::vector<std::string> files;
  std::string json_file;

  int operator()(const emu::ProcessGroup& processes) const {
    const OutputFile json(processes, "--json", json_file);
    if (processes.rank() != 0) return kOk;  // nothing to share: process 0 reads and prints
    std::vector<ResultFile> loaded;
    for (const std::string& file : files) loaded.push_back(load_result_file(file));
    const Comparison comparison = compare(loaded);
    fmt::print("{}", to_table(comparison));
    json.write(to_json(comparison));
    return std::all_of(comparison.compared().begin(), comparison.compared().end(),
                       [](const Compared& each) { return each.verified(); })
               ? kOk
               : kFailed;
  }
};

}  // namespace

Command add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "hold results or sweeps against each other: inputs, latencies, what moved");
  command->footer(
      "The first is what all others are held against. A single sweep is looked into: each varied\n"
      "key with the others held fixed. Exit code 1: a result is not verified, or a point of a "
      "sweep\nis not ok.");
  auto compare = std::make_shared<CompareCommand>();
  command
      ->add_option("results", compare->files,
                   "files of orrery run --json, or folders or points.jsonl of orrery sweep")
      ->required();
  command->add_option("--json", compare->json_file, "write the comparison there");
  return [compare](const emu::ProcessGroup& processes) { return (*compare)(processes); };
}

}  // namespace orrery::cli
