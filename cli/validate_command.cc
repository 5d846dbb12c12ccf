// orrery validate: predictions beside published measurements.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "emu/errors.h"

namespace orrery::cli {

Command add_validate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("validate", "compare predictions with published measurements");
  auto suite = std::make_shared<std::string>("ub-mesh");
  command->add_option("--suite", *suite, "orrery list suites");
  return [suite](const emu::ProcessGroup&) -> int {
    throw emu::ConfigError("--suite", "", *suite, "a suite");
  };
}

}  // namespace orrery::cli
