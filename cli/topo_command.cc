// orrery topo: a topology in words and numbers, or as a graph.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/data_files.h"
#include "cli/run_options.h"
#include "devices/machine.h"
#include "fabric/failures.h"
#include "fabric/routing.h"
#include "fabric/summary.h"

namespace orrery::cli {

namespace {

void print_links(const fabric::Topology& topology) {
  for (const fabric::Link& link : topology.links) {
    if (link.from > link.to) continue;  // a cable is two links
    fmt::print("{:<36} {:<14} {:>10.10g} ns {:>8.10g} GB/s\n", fabric::cable_name(topology, link),
               topology.link_classes[link.link_class], emu::to_us(link.latency) * 1e3,
               link.rate.gb_per_s());
  }
}

}  // namespace

Command add_topo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("topo", "describe a topology");
  auto name = std::make_shared<std::string>();
  auto settings = std::make_shared<std::vector<std::string>>();
  auto dot = std::make_shared<bool>(false);
  auto links = std::make_shared<bool>(false);
  command->add_option("topology", *name, "a shipped topology or a file; see orrery list topologies")
      ->required();
  command->add_option("--set", *settings, "path.to.field=value; fabric., device.")
      ->allow_extra_args(false);
  CLI::Option* const graph = command->add_flag("--dot", *dot, "print the graph for Graphviz");
  command
      ->add_flag("--links", *links, "print every cable by the name that fabric.failed_links takes")
      ->excludes(graph);
  return [name, settings, dot, links](const emu::ProcessGroup& processes) {
    const std::string file = find_data_file("topologies", *name, "topology");
    const devices::Machine machine =
        devices::load_machine(file, split_settings(*settings, {"fabric", "device"}));
    const fabric::Topology topology = fabric::build_topology(machine.fabric(), file);
    if (processes.rank() != 0) return kOk;
    if (*links) {
      print_links(topology);
    } else if (*dot) {
      fmt::print("{}", fabric::to_dot(topology));
    } else {
      fmt::print("{}: {}\n\n{}", machine.name(), machine.description(),
                 fabric::summarise(topology, fabric::Routing(topology), machine.fabric()));
    }
    return kOk;
  };
}

}  // namespace orrery::cli
