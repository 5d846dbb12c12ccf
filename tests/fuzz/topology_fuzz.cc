// Any bytes as a fabric: a ConfigError or a graph with routes, never anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "emu/errors.h"
#include "emu/text_config.h"
#include "fabric/placement.h"
#include "fabric/routing.h"
#include "fabric/summary.h"

namespace {

using namespace orrery;

// Graphs within the limits may still take seconds; what matters here is what lies at their edges.
bool is_small(const fabric::Fabric& fabric) {
  for (const auto* grid : {&fabric.full_mesh().dimensions(), &fabric.torus().dimensions()}) {
    std::uint64_t devices = 1;
    for (const std::uint32_t size : *grid) {
      if (size > 64 || (devices *= size == 0 ? 1 : size) > 256) return false;
    }
  }
  const fabric::Clos& clos = fabric.clos();
  const fabric::ScaleOut& out = fabric.scale_out();
  const fabric::Dragonfly& dragonfly = fabric.dragonfly();
  const bool few_cables = out.scale_up().planes() <= 8 && out.nics_per_device() <= 8 &&
                          out.uplinks_per_spine() <= 8 && dragonfly.scale_up().planes() <= 8 &&
                          dragonfly.local_cables() <= 8 && dragonfly.global_cables() <= 8;
  const bool few_nodes = out.nodes() <= 16 && out.devices_per_node() <= 32 && out.spines() <= 8 &&
                         dragonfly.groups() <= 4 && dragonfly.switches_per_group() <= 8 &&
                         dragonfly.nodes_per_group() <= 8 && dragonfly.devices_per_node() <= 16;
  return few_cables && few_nodes && clos.nodes() <= 16 && clos.devices_per_node() <= 32 &&
         clos.planes() <= 8 && clos.spines_per_plane() <= 8 && fabric.star().devices() <= 256;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fabric::Fabric fabric;
  try {
    emu::parse_text(std::string(reinterpret_cast<const char*>(data), size), "fuzz", fabric);
    emu::check_ranges(fabric, "fuzz");
    if (!is_small(fabric)) return 0;
    const fabric::Topology topology = fabric::build_topology(fabric, "fuzz");
    const fabric::Routing routing(topology);
    fabric::summarise(topology, routing, fabric);
    fabric::to_dot(topology);
    fabric::place(topology, topology.devices, "spread");
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
