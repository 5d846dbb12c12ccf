#include <fmt/format.h>

#include "fabric/generators/generators.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {

Topology build_star(const Star& star, const std::string& where) {
  TopologyBuilder builder(where, "fabric.star");
  if (star.devices() == 0) builder.fail("devices", "nothing", "the number of devices");
  builder.expect(std::uint64_t{star.devices()} + 1, star.devices());
  const auto kind = builder.cable_kind(star.link(), "link", builder.link_class("device-switch"));
  for (std::uint32_t device = 0; device < star.devices(); ++device) {
    builder.add_node(0, fmt::format("device{}", device));
  }
  const NodeId hub = builder.add_node(1, "switch");
  for (std::uint32_t device = 0; device < star.devices(); ++device)
    builder.add_cable(device, hub, kind);
  Topology topology = builder.finish(star.devices(), star.devices(), 1);
  topology.devices_forward = false;
  return topology;
}

}  // namespace orrery::fabric
