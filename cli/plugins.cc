#include "cli/plugins.h"

#include <CLI/CLI.hpp>
#include <span>

#include "emu/errors.h"
#include "moe/plugin.h"

namespace orrery::cli {

void add_plugin_option(CLI::App& app, std::vector<std::string>& files) {
  app.add_option("--plugin", files, "a shared library with algorithms of your own")
      ->allow_extra_args(false);
}

void load_plugins(const emu::ProcessGroup& processes, const std::vector<std::string>& files) {
  if (files.empty()) return;
  std::string problem;
  try {
    for (const std::string& file : files) moe::load_plugin(file);
  } catch (const emu::ConfigError& error) {
    problem = error.what();
  }
  for (const auto& each : processes.all_gather(std::as_bytes(std::span<const char>(problem)))) {
    if (each.empty()) continue;
    throw emu::ConfigError(std::string(reinterpret_cast<const char*>(each.data()), each.size()));
  }
}

}  // namespace orrery::cli
