// orrery litmus: small programs on many seeds, and whether a fabric keeps its word.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "cli/litmus_report.h"
#include "cli/output_file.h"
#include "cli/run_options.h"
#include "emu/errors.h"
#include "emu/near_match.h"
#include "litmus/rules.h"
#include "litmus/runner.h"

namespace orrery::cli {

namespace {

using litmus::Program;
using litmus::Runner;

// The runs are dealt to the processes like cards; the table is the same for any number of them.
struct LitmusCommand {
  std::string topology;  // empty: every shipped one
  std::string runs = "200";
  std::string seed = "1";
  std::string placement;  // empty: spread, and on machines with NICs packed, too
  std::vector<std::string> settings;
  std::vector<std::string> names;
  std::string json_file;
  bool list = false;

  int operator()(const emu::ProcessGroup& processes) const {
    if (list) {
      if (processes.rank() == 0) fmt::print("{}", litmus_list());
      return kOk;
    }
    LitmusReport report;
    report.runs = parse_number("--runs", runs, 1, 1'000'000);
    report.seed = parse_number("--seed", seed, 0, (std::uint64_t{1} << 53) - 1);
    report.settings = settings;
    report.all_programs = names.empty();
    const std::vector<const Program*> programs = chosen_programs();
    const devices::Overrides overrides = split_settings(settings, {"fabric", "device"});
    const OutputFile json(processes, "--json", json_file);

    // All fabrics are checked before the first one runs.
    std::vector<std::unique_ptr<devices::Machine>> machines;
    std::vector<std::unique_ptr<Runner>> runners;
    for (const std::string& name :
         topology.empty() ? data_names("topologies") : std::vector<std::string>{topology}) {
      const std::string file = find_data_file("topologies", name, "--topology");
      machines.push_back(
          std::make_unique<devices::Machine>(devices::load_machine(file, overrides)));
      const auto add = [&](const std::string& column, const std::string& on) {
        runners.push_back(std::make_unique<Runner>(*machines.back(), file, programs, on));
        report.fabrics.push_back(
            {column, litmus::promises(runners.back()->fabric()), runners.back()->tallies()});
      };
      const bool two = placement.empty() && machines.back()->device().has_nic();
      if (two) add(name, "packed");
      add(two ? name + " NICs" : name, placement.empty() ? "spread" : placement);
    }
    for (std::size_t i = 0; i < runners.size(); ++i) {
      const std::string hang = run_all(processes, *runners[i], report, report.fabrics[i]);
      if (hang.empty()) continue;
      if (processes.rank() == 0) fmt::print(stderr, "{}: {}", report.fabrics[i].name, hang);
      return kHang;
    }
    if (processes.rank() == 0) {
      fmt::print("{}", to_table(report));
      json.write(to_json(report));
    }
    return violations(report).empty() ? kOk : kFailed;
  }

 private:
  std::vector<const Program*> chosen_programs() const {
    std::vector<std::string> known;
    for (const Program& program : litmus::programs()) known.push_back(program.name);
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        throw emu::ConfigError("--test", "", name,
                               "a name of orrery litmus --list" + emu::did_you_mean(name, known));
      }
    }
    std::vector<const Program*> chosen;
    for (const Program& program : litmus::programs()) {
      const bool wanted =
          names.empty() || std::find(names.begin(), names.end(), program.name) != names.end();
      if (wanted) chosen.push_back(&program);
    }
    return chosen;
  }

  // Adds every run of every process to the tallies, in order of seeds. The first hang, if any.
  static std::string run_all(const emu::ProcessGroup& processes, const Runner& runner,
                             const LitmusReport& report, LitmusFabric& fabric) {
    const bool terminal = processes.rank() == 0 && isatty(STDERR_FILENO) != 0;
    const auto parts = static_cast<std::uint64_t>(processes.size());
    const std::size_t width = fabric.tallies.size();
    std::vector<std::int32_t> mine;
    std::string hang;
    for (auto n = static_cast<std::uint64_t>(processes.rank()); n < report.runs && hang.empty();
         n += parts) {
      if (terminal && n % 16 == 0) {
        fmt::print(stderr, "\r{}: run {} of {}\033[K", fabric.name, n, report.runs);
      }
      for (const bool adversary : {false, true}) {
        const Runner::Run run = runner.run({report.seed + n, adversary});
        mine.insert(mine.end(), run.outcomes.begin(), run.outcomes.end());
        if (hang.empty()) hang = run.hang;
      }
    }
    if (terminal) fmt::print(stderr, "\r\033[K");
    std::vector<std::vector<std::int32_t>> all;
    for (const auto& part :
         processes.all_gather(std::as_bytes(std::span<const std::int32_t>(mine)))) {
      all.emplace_back(part.size() / sizeof(std::int32_t));
      std::memcpy(all.back().data(), part.data(), part.size());
    }
    for (const auto& part : processes.all_gather(std::as_bytes(std::span<const char>(hang)))) {
      if (part.empty()) continue;
      return {reinterpret_cast<const char*>(part.data()), part.size()};
    }
    for (std::uint64_t n = 0; n < report.runs; ++n) {
      for (const bool adversary : {false, true}) {
        const std::vector<std::int32_t>& part = all[n % parts];
        const auto at = static_cast<std::ptrdiff_t>((n / parts * 2 + (adversary ? 1 : 0)) * width);
        count(fabric.tallies,
              {{report.seed + n, adversary},
               {part.begin() + at, part.begin() + at + static_cast<std::ptrdiff_t>(width)},
               {}});
      }
    }
    return {};
  }
};

}  // namespace

Command add_litmus(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "litmus", "what a fabric promises about order and visibility, and whether it keeps that");
  auto litmus = std::make_shared<LitmusCommand>();
  command->add_option("--topology", litmus->topology,
                      "a shipped topology or a file (default: every shipped one)");
  command->add_option("--runs", litmus->runs,
                      "seeds per fabric, each run without and with the adversary");
  command->add_option("--seed", litmus->seed, "the first seed");
  command->add_option("--set", litmus->settings, "fabric.… or device.…: path.to.field=value")
      ->allow_extra_args(false);
  command->add_option(
      "--placement", litmus->placement,
      "packed, spread or a list of device ports; without it spread, and where there are "
      "NICs between nodes also packed, in a column each");
  command->add_option("--test", litmus->names, "only this program; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--json", litmus->json_file, "write the table there");
  command->add_flag("--list", litmus->list, "name the programs and say what they ask");
  return [litmus](const emu::ProcessGroup& processes) { return (*litmus)(processes); };
}

}  // namespace orrery::cli
