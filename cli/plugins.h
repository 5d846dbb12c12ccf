// --plugin: algorithms of the user's own, loaded on every process before one is looked up.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "emu/process_group.h"

namespace orrery::cli {

void add_plugin_option(CLI::App& app, std::vector<std::string>& files);

/// Collective. Throws ConfigError on every process alike if a file is refused on any: hosts may
/// well see different files.
void load_plugins(const emu::ProcessGroup& processes, const std::vector<std::string>& files);

}  // namespace orrery::cli
