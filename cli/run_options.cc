#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <thread>

#include "cli/data_files.h"
#include "cli/plugins.h"
#include "emu/errors.h"
#include "emu/near_match.h"
#include "emu/text_config.h"
#include "emu/transport.h"
#include "fabric/failures.h"
#include "fabric/placement.h"
#include "fabric/topology.h"
#include "moe/algorithm.h"
#include "moe/workload.h"

namespace orrery::cli {

namespace {
// Windows pay where there are many devices; no process takes the cores of another. The result is
// the same for any number.
int pick_threads(const emu::ProcessGroup& processes, std::uint32_t devices) {
  if (devices / static_cast<std::uint32_t>(processes.size()) < kManyDevices) return 1;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto least = cores / processes.local_size();  // of the host with most processes
  return std::max(1, static_cast<int>(-processes.max(-least)));
}
}  // namespace

std::uint64_t parse_number(const std::string& flag, const std::string& text, std::uint64_t min,
                           std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    throw emu::ConfigError(flag, "", text, fmt::format("a whole number from {} to {}", min, max));
  }
  return value;
}

devices::Overrides split_settings(const std::vector<std::string>& settings,
                                  const std::vector<std::string>& roots) {
  devices::Overrides pairs;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw emu::ConfigError("--set", "", setting, "path.to.field=value");
    }
    const std::string field = setting.substr(0, equals);
    const std::string root = field.substr(0, field.find('.'));
    if (std::find(roots.begin(), roots.end(), root) == roots.end() || root == field) {
      const std::vector<std::string> all_but_last(roots.begin(), roots.end() - 1);
      throw emu::ConfigError("--set", field, setting.substr(equals + 1),
                             fmt::format("a path that begins with {}. or {}.",
                                         fmt::join(all_but_last, "., "), roots.back()) +
                                 (root == field ? "" : emu::did_you_mean(root, roots)));
    }
    pairs.emplace_back(field, setting.substr(equals + 1));
  }
  return pairs;
}

namespace {

double parse_positive(const std::string& flag, const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || text.empty() || !std::isfinite(value) || value <= 0 || value > 1e9) {
    throw emu::ConfigError(flag, "", text, "a number above 0 and up to 1e9");
  }
  return value;
}

std::uint32_t parse_tokens(const std::string& text) {
  return static_cast<std::uint32_t>(parse_number("--tokens", text, 0, 1 << 20));
}
std::uint32_t parse_devices(const std::string& text) {
  return static_cast<std::uint32_t>(parse_number("--devices", text, 1, 1 << 20));
}
std::uint32_t parse_iterations(const std::string& text) {
  return static_cast<std::uint32_t>(parse_number("--iterations", text, 1, 1'000'000));
}
std::uint64_t parse_seed(const std::string& text) {
  return parse_number("--seed", text, 0, (std::uint64_t{1} << 53) - 1);
}

// Also before any work, though make_transport would refuse the same.
void check_transport(const std::string& name, const emu::ProcessGroup& processes) {
  const std::vector<std::string> known = emu::transport_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw emu::ConfigError(
        "--transport", "", name,
        fmt::format("one of {}", fmt::join(known, ", ")) + emu::did_you_mean(name, known));
  }
  if (name == "local" && processes.size() > 1) {
    throw emu::ConfigError("--transport", "", name, "auto, ucx, ofi or mpi under mpirun");
  }
  if (name == "mpi" && !processes.uses_mpi()) {
    throw emu::ConfigError("--transport", "", name,
                           "a start by mpirun, or auto, local, ucx or ofi");
  }
}

void check_payload(const std::string& payload) {
  const std::vector<std::string> kPayloads = {"full", "control"};
  if (std::find(kPayloads.begin(), kPayloads.end(), payload) == kPayloads.end()) {
    throw emu::ConfigError("--payload", "", payload,
                           "full or control" + emu::did_you_mean(payload, kPayloads));
  }
}

// The workload with --tokens and --set on top.
moe::Workload to_workload(const std::string& file, const std::optional<std::string>& tokens,
                          const devices::Overrides& settings) {
  moe::Workload workload = moe::load_workload(file);
  if (tokens) {
    workload.set_tokens(parse_tokens(*tokens));
    workload.clear_tokens_per_device();
  }
  for (const auto& [field, value] : settings) {
    if (field.rfind("workload.", 0) != 0) continue;
    if (tokens &&
        (field == "workload.tokens" || field.rfind("workload.tokens_per_device", 0) == 0)) {
      throw emu::ConfigError("--set", field, value,
                             "not to be given together with --tokens " + *tokens);
    }
    emu::set_field(workload, field.substr(9), value, "--set");
  }
  emu::check_ranges(workload, file);
  moe::check_workload(workload, file);
  return workload;
}

// An option without a default value; an empty text is a value too.
void add_optional(CLI::App& app, const std::string& name, std::optional<std::string>& target,
                  const std::string& help) {
  app.add_option_function<std::string>(
      name, [&target](const std::string& text) { target = text; }, help);
}

}  // namespace

void RunOptions::add_to(CLI::App& app, bool complete) {
  app.add_option("--topology", topology, "a shipped topology or a file; see orrery list topologies")
      ->required(complete);
  app.add_option("--workload", workload, "a shipped workload or a file; see orrery list workloads");
  app.add_option("--algorithm", algorithm, "an algorithm; see orrery list algorithms")
      ->required(complete);
  add_optional(app, "--devices", devices, "devices of the run (default: all of the topology)");
  app.add_option("--placement", placement, "packed, spread, or a list of ports such as 0-7,16");
  add_optional(app, "--tokens", tokens, "tokens per device (default: the workload's)");
  app.add_option("--set", settings, "path.to.field=value; fabric., device., workload., algorithm.")
      ->allow_extra_args(false);
  add_plugin_option(app, plugins);
  app.add_option("--iterations", iterations, "how often the layer runs");
  app.add_flag("--align", align, "start each operation everywhere at once");
  app.add_flag("--align-iterations", align_iterations,
               "start each iteration everywhere at once, its operations one after the other");
  app.add_option("--seed", seed, "of inputs, routing and the adversary");
  app.add_flag("--adversary", adversary,
               "delay the visibility of blocks as far as the fabric allows");
  app.add_flag("--check", check,
               "find accesses to memory that this run's timing alone put in order");
  add_optional(app, "--max-virtual-ms", max_virtual_ms,
               "stop with a hang report beyond this virtual time");
  app.add_option(
      "--operation", operation,
      "the last of each iteration, e.g. dispatch (default: the algorithm's last); layer: gate and "
      "all operations, measured each and as a whole; model: each iteration is a layer with "
      "attention, and the result has the time of a token");
  app.add_option("--payload", payload,
                 "full, or control: flags, counts and tags of rows but no rows, for scale");
  app.add_option("--transport", transport, "auto, local, ucx, ofi or mpi");
  app.add_option("--threads", threads,
                 "threads that run a process's devices side by side; auto: this host's cores, for "
                 "a large run");
}

void RunOptions::check_texts() const {
  check_payload(payload);
  find_data_file("topologies", topology, "--topology");
  find_data_file("workloads", workload, "--workload");
  moe::find_algorithm(algorithm);
  split_settings(settings, kRunSettings);
  if (devices) parse_devices(*devices);
  if (tokens) parse_tokens(*tokens);
  parse_iterations(iterations);
  parse_seed(seed);
  if (max_virtual_ms) parse_positive("--max-virtual-ms", *max_virtual_ms);
}

moe::RunConfig RunOptions::to_config(const emu::ProcessGroup& processes) const {
  check_transport(transport, processes);
  moe::RunConfig config;
  config.settings = split_settings(settings, kRunSettings);
  config.machine_file = find_data_file("topologies", topology, "--topology");
  config.machine = devices::load_machine(config.machine_file, config.settings);
  config.workload_file = find_data_file("workloads", workload, "--workload");
  config.workload = to_workload(config.workload_file, tokens, config.settings);
  config.algorithm = algorithm;
  load_plugins(processes, plugins);
  moe::find_algorithm(algorithm);
  const fabric::Topology graph =
      fabric::build_topology(config.machine.fabric(), config.machine_file);
  const std::uint32_t ports = graph.devices;
  config.devices = ports;
  if (devices) {
    const std::uint32_t wanted = parse_devices(*devices);
    if (wanted > ports) {
      throw emu::ConfigError("--devices", "", *devices,
                             fmt::format("at most the {} devices of topology {}", ports, topology));
    }
    config.devices = wanted;
  }
  moe::token_bound(config.workload, config.devices, config.workload_file);
  const std::vector<fabric::NodeId> used = fabric::place(graph, config.devices, placement);
  if (graph.failed_cables > 0) {
    fabric::check_reachable(graph, fabric::Routing(graph), used, config.machine.fabric(),
                            config.machine_file);
  }
  config.placement = placement;
  config.iterations = parse_iterations(iterations);
  config.seed = parse_seed(seed);
  config.operation = operation;
  if (align && align_iterations) {
    throw emu::ConfigError("--align-iterations: given with --align, expected one of them");
  }
  if (align) config.alignment = devices::Alignment::kOperations;
  if (align_iterations) config.alignment = devices::Alignment::kIterations;
  config.adversary = adversary;
  config.check = check;
  if (max_virtual_ms) config.max_virtual_ms = parse_positive("--max-virtual-ms", *max_virtual_ms);
  config.threads = threads == "auto"
                       ? pick_threads(processes, config.devices)
                       : static_cast<int>(parse_number("--threads", threads, 1, 1024));
  config.transport = transport;
  check_payload(payload);
  config.control = payload == "control";
  return config;
}

}  // namespace orrery::cli
