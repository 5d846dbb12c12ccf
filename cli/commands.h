// The subcommands. Each adds itself to the program and returns what runs it; the exit code is the
// result.
#pragma once

#include <functional>

#include "cli/command_line.h"
#include "emu/process_group.h"

namespace orrery::cli {

/// Exit codes (design section 10).
enum ExitCode : int { kOk = 0, kFailed = 1, kUsage = 2, kHang = 3, kTransport = 4 };

using Command = std::function<int(const emu::ProcessGroup&)>;

Command add_run(CLI::App& app);
Command add_sweep(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_validate(CLI::App& app);
Command add_topo(CLI::App& app);
Command add_litmus(CLI::App& app);
Command add_list(CLI::App& app);

}  // namespace orrery::cli
