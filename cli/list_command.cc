// orrery list: what can be named on the command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "cli/plugins.h"
#include "devices/machine.h"
#include "emu/errors.h"
#include "emu/near_match.h"
#include "emu/text_config.h"
#include "moe/algorithm.h"
#include "moe/suite.h"
#include "moe/workload.h"

namespace orrery::cli {

namespace {

void list_topologies() {
  for (const std::string& name : data_names("topologies")) {
    const std::string file = find_data_file("topologies", name, "list");
    fmt::print("{:<20} {}\n", name, devices::load_machine(file, {}).description());
  }
}

void list_nics() {
  for (const std::string& name : data_names("topologies/nics")) {
    devices::NicPreset preset;
    emu::load_text_file(find_data_file("topologies/nics", name, "list"), preset);
    fmt::print("{:<20} {}\n", name, preset.description());
  }
}

void list_workloads() {
  for (const std::string& name : data_names("workloads")) {
    const moe::Workload workload = moe::load_workload(find_data_file("workloads", name, "list"));
    fmt::print("{:<20} hidden {}, {} experts, top {}, {} layers\n", name, workload.hidden(),
               workload.experts(), workload.top_k(), workload.layers());
  }
}

void list_suites() {
  for (const std::string& name : data_names("suites")) {
    fmt::print("{:<20} {}\n", name,
               moe::load_suite(find_data_file("suites", name, "list")).description());
  }
}

void list_ranges() {
  for (const std::string& name : data_names("ranges")) {
    const moe::AssumedRanges ranges = moe::load_ranges(find_data_file("ranges", name, "list"));
    fmt::print("{:<20} {} assumed fields of {}\n", name, ranges.ranges_size(), ranges.topology());
  }
}

void list_algorithms() {
  for (const moe::AlgorithmEntry& entry : moe::algorithms()) {
    fmt::print("{:<16} {}\n", entry.name, entry.description);
    for (const moe::OptionSpec& option : entry.options) {
      fmt::print(
          "    --set algorithm.{}={}   {}{}\n", option.name, option.default_value, option.help,
          option.choices.empty() ? "" : fmt::format(" ({})", fmt::join(option.choices, ", ")));
    }
  }
}

}  // namespace

Command add_list(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("list", "list topologies, nics, workloads, algorithms, suites or ranges");
  auto what = std::make_shared<std::string>();
  command->add_option("what", *what, "topologies, nics, workloads, algorithms, suites or ranges")
      ->required();
  auto plugins = std::make_shared<std::vector<std::string>>();
  add_plugin_option(*command, *plugins);
  return [what, plugins](const emu::ProcessGroup& processes) {
    const std::vector<std::string> known = {"topologies", "nics",   "workloads",
                                            "algorithms", "suites", "ranges"};
    if (std::find(known.begin(), known.end(), *what) == known.end()) {
      throw emu::ConfigError("orrery list", "", *what,
                             "topologies, nics, workloads, algorithms, suites or ranges" +
                                 emu::did_you_mean(*what, known));
    }
    load_plugins(processes, *plugins);
    if (processes.rank() != 0) return kOk;
    if (*what == "topologies") list_topologies();
    if (*what == "nics") list_nics();
    if (*what == "workloads") list_workloads();
    if (*what == "algorithms") list_algorithms();
    if (*what == "suites") list_suites();
    if (*what == "ranges") list_ranges();
    return kOk;
  };
}

}  // namespace orrery::cli
