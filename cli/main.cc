// The program `orrery`: reads the command line, runs one command, turns errors into exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/parse_errors.h"
#include "emu/errors.h"
#include "emu/process_group.h"

namespace orrery::cli {
namespace {

// One message for all processes: each says what it met, the lowest rank that met something prints
// it.
int report(const emu::ProcessGroup& processes, int code, const std::string& message) {
  const int worst = static_cast<int>(processes.max(code));
  const std::int64_t speaker =
      -processes.max(message.empty() ? -processes.size() : -processes.rank());
  if (speaker == processes.rank()) fmt::print(stderr, "orrery: {}\n", message);
  return worst;
}

int run_command(const emu::ProcessGroup& processes, const Command& command) {
  try {
    const int code = command(processes);
    return report(processes, code, "");
  } catch (const emu::ConfigError& error) {
    return report(processes, kUsage, error.what());
  }
}

int run_main(int argc, char** argv) {
  std::optional<emu::ProcessGroup> group;
  try {
    group.emplace(&argc, &argv);
    const emu::ProcessGroup& processes = *group;
    CLI::App app{"Orrery: a distributed emulator of superpod fabrics", "orrery"};
    app.require_subcommand(1);
    app.option_defaults()->always_capture_default();
    std::vector<Command> commands = {add_run(app),      add_sweep(app), add_compare(app),
                                     add_validate(app), add_topo(app),  add_litmus(app),
                                     add_list(app)};
    const std::vector<std::string> names = {"run",  "sweep",  "compare", "validate",
                                            "topo", "litmus", "list"};
    try {
      std::vector<std::string> arguments = join_negative_numbers(argc, argv);
      std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
      app.parse(arguments);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {
        if (processes.rank() == 0) app.exit(error);
        return kOk;
      }
      return report(processes, kUsage, explain(error, app).what());
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (app.got_subcommand(names[i])) return run_command(processes, commands[i]);
    }
    return kUsage;
  } catch (const emu::TransportError& error) {
    fmt::print(stderr, "orrery: {}\n", error.what());
    return kTransport;
  } catch (const emu::ConfigError& error) {
    fmt::print(stderr, "orrery: {}\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    if (group) {
      fmt::print(stderr, "orrery: process {}: {}\n", group->rank(), error.what());
    } else {
      fmt::print(stderr, "orrery: {}\n", error.what());
    }
    // The other processes may wait for this one for ever: leave without saying goodbye to MPI.
    std::fflush(nullptr);
    std::_Exit(kFailed);
  }
}

}  // namespace
}  // namespace orrery::cli

int main(int argc, char** argv) { return orrery::cli::run_main(argc, argv); }
