#include <fmt/format.h>

#include "fabric/generators/generators.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {
namespace {

void add_nodes(TopologyBuilder& builder, const Clos& clos, std::uint32_t devices,
               std::uint32_t spines) {
  const char* const kind = clos.devices_per_package() > 1 ? "die" : "device";
  for (std::uint32_t device = 0; device < devices; ++device) {
    builder.add_node(0, fmt::format("{}{}", kind, device));
  }
  for (std::uint32_t node = 0; node < clos.nodes(); ++node) {
    for (std::uint32_t plane = 0; plane < clos.planes(); ++plane) {
      builder.add_node(1, fmt::format("L1 node{} plane{}", node, plane));
    }
  }
  for (std::uint32_t plane = 0; plane < clos.planes(); ++plane) {
    for (std::uint32_t spine = 0; spine < spines; ++spine) {
      builder.add_node(2, fmt::format("L2 plane{} spine{}", plane, spine));
    }
  }
}

void add_package_cables(TopologyBuilder& builder, const Clos& clos, std::uint32_t devices) {
  const std::uint32_t size = clos.devices_per_package();
  if (size == 1) return;
  const auto kind =
      builder.cable_kind(clos.package_link(), "package_link", builder.link_class("package"));
  for (std::uint32_t a = 0; a < devices; ++a) {
    const std::uint32_t package_end = (a / size + 1) * size;
    for (std::uint32_t b = a + 1; b < package_end; ++b) builder.add_cable(a, b, kind);
  }
}

void add_device_cables(TopologyBuilder& builder, const Clos& clos, std::uint32_t devices) {
  const auto kind =
      builder.cable_kind(clos.device_link(), "device_link", builder.link_class("device-L1"));
  for (std::uint32_t device = 0; device < devices; ++device) {
    const NodeId first_chip = devices + device / clos.devices_per_node() * clos.planes();
    for (std::uint32_t plane = 0; plane < clos.planes(); ++plane) {
      builder.add_cable(device, first_chip + plane, kind, static_cast<std::uint16_t>(plane));
    }
  }
}

void add_uplinks(TopologyBuilder& builder, const Clos& clos, std::uint32_t devices,
                 std::uint32_t spines) {
  if (spines == 0) return;
  const auto kind = builder.cable_kind(clos.uplink(), "uplink", builder.link_class("L1-L2"));
  const NodeId first_spine = devices + clos.nodes() * clos.planes();
  for (std::uint32_t node = 0; node < clos.nodes(); ++node) {
    for (std::uint32_t plane = 0; plane < clos.planes(); ++plane) {
      const NodeId chip = devices + node * clos.planes() + plane;
      for (std::uint32_t spine = 0; spine < spines; ++spine) {
        builder.add_cable(chip, first_spine + plane * spines + spine, kind,
                          static_cast<std::uint16_t>(plane));
      }
    }
  }
}

}  // namespace

Topology build_clos(const Clos& clos, const std::string& where) {
  TopologyBuilder builder(where, "fabric.clos");
  if (clos.nodes() == 0) builder.fail("nodes", "nothing", "the number of nodes");
  if (clos.devices_per_node() == 0)
    builder.fail("devices_per_node", "nothing", "the number of devices");
  if (clos.devices_per_node() % clos.devices_per_package() != 0) {
    builder.fail(
        "devices_per_package", std::to_string(clos.devices_per_package()),
        fmt::format("a divisor of devices_per_node, which is {}", clos.devices_per_node()));
  }
  const std::uint64_t devices = std::uint64_t{clos.nodes()} * clos.devices_per_node();
  const std::uint32_t spines = clos.nodes() > 1 ? clos.spines_per_plane() : 0;
  const std::uint64_t chips = std::uint64_t{clos.nodes()} * clos.planes();
  builder.expect(
      devices + chips + std::uint64_t{clos.planes()} * spines,
      devices * clos.planes() + chips * spines + devices * (clos.devices_per_package() - 1) / 2);

  const auto device_count = static_cast<std::uint32_t>(devices);
  add_nodes(builder, clos, device_count, spines);
  add_package_cables(builder, clos, device_count);
  add_device_cables(builder, clos, device_count);
  add_uplinks(builder, clos, device_count, spines);
  Topology topology =
      builder.finish(device_count, clos.devices_per_node(), clos.devices_per_package());
  topology.devices_forward = false;
  return topology;
}

}  // namespace orrery::fabric
