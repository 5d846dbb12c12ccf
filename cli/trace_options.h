// The flags that say what of a run is recorded and drawn.
#pragma once

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "moe/run_trace.h"

namespace orrery::cli {

struct TraceOptions {
  std::optional<std::string> file;
  std::optional<std::string> devices;
  std::optional<std::string> from_us;
  std::optional<std::string> to_us;
  std::optional<std::string> events;
  bool timeline = false;

  void add_to(CLI::App& app);
  /// What a run of `devices` devices has to record; nothing if nothing is drawn. Throws
  /// ConfigError, the same on every process.
  std::optional<moe::TraceRequest> to_request(std::uint32_t devices) const;
};

}  // namespace orrery::cli
