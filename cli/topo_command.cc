// orrery topo: a topology in words and numbers, or as a graph.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "devices/machine.h"
#include "fabric/routing.h"
#include "fabric/summary.h"

namespace orrery::cli {

Command add_topo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("topo", "describe a topology");
  auto name = std::make_shared<std::string>();
  auto dot = std::make_shared<bool>(false);
  command->add_option("topology", *name, "a shipped topology or a file; see orrery list topologies")
      ->required();
  command->add_flag("--dot", *dot, "print the graph for Graphviz");
  return [name, dot](const emu::ProcessGroup& processes) {
    const std::string file = find_data_file("topologies", *name, "topology");
    const devices::Machine machine = devices::load_machine(file, {});
    const fabric::Topology topology = fabric::build_topology(machine.fabric(), file);
    if (processes.rank() != 0) return kOk;
    if (*dot) {
      fmt::print("{}", fabric::to_dot(topology));
    } else {
      fmt::print("{}: {}\n\n{}", machine.name(), machine.description(),
                 fabric::summarise(topology, fabric::Routing(topology), machine.fabric()));
    }
    return kOk;
  };
}

}  // namespace orrery::cli
