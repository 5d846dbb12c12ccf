// The flags that describe a run, as typed, and the configuration that they make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "moe/run.h"

namespace orrery::cli {

/// A run of so many devices in a process takes the host's cores, unless --threads says otherwise.
inline constexpr std::uint32_t kManyDevices = 64;

/// Everything is text until to_config(), so that every wrong value gives the same kind of message.
struct RunOptions {
  std::string topology;
  std::string workload = "tiny";
  std::string algorithm;
  std::optional<std::string> devices;  // default: all of the topology
  std::optional<std::string> tokens;   // default: the workload's
  std::string placement = "packed";
  std::vector<std::string> settings;
  std::vector<std::string> plugins;
  std::string iterations = "1";
  std::string seed = "1";
  bool align = false;
  bool align_iterations = false;
  bool adversary = false;
  bool check = false;
  std::optional<std::string> max_virtual_ms;  // default: no limit
  std::string operation;
  std::string payload = "full";
  std::string transport = "auto";
  std::string threads = "auto";

  /// `complete`: a topology and an algorithm must be given.
  void add_to(CLI::App& app, bool complete = true);
  /// Checks each flag by itself: numbers, and names of what is shipped or loaded. Throws
  /// ConfigError.
  void check_texts() const;
  /// Loads the files and plug-ins and checks everything that can be checked without them running.
  /// Throws ConfigError, the same on every process. Collective over `processes`.
  moe::RunConfig to_config(const emu::ProcessGroup& processes) const;
};

/// What --set reaches in a run.
inline const std::vector<std::string> kRunSettings = {"fabric", "device", "workload", "algorithm"};

/// `--set` texts as path and value; every path begins with one of `roots`. Throws ConfigError.
devices::Overrides split_settings(const std::vector<std::string>& settings,
                                  const std::vector<std::string>& roots = kRunSettings);

/// A whole number of a flag. Throws ConfigError naming the flag.
std::uint64_t parse_number(const std::string& flag, const std::string& text, std::uint64_t min,
                           std::uint64_t max);

}  // namespace orrery::cli
