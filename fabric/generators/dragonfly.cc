#include <fmt/format.h>

#include "fabric/generators/generators.h"
#include "fabric/generators/scale_up.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {
namespace {

// A path over two global links has at least these two, the minimal one local - global - local.
constexpr std::uint8_t kGlobalLength = 16;

void check(const TopologyBuilder& builder, const Dragonfly& dragonfly) {
  if (dragonfly.groups() == 0) builder.fail("groups", "nothing", "the number of groups");
  if (dragonfly.switches_per_group() == 0)
    builder.fail("switches_per_group", "nothing", "the number of switches");
  if (dragonfly.nodes_per_group() == 0)
    builder.fail("nodes_per_group", "nothing", "the number of nodes");
  if (dragonfly.devices_per_node() == 0)
    builder.fail("devices_per_node", "nothing", "the number of devices");
  if (dragonfly.switches_per_group() % dragonfly.switches_per_node() != 0) {
    builder.fail("switches_per_node", std::to_string(dragonfly.switches_per_node()),
                 fmt::format("a divisor of switches_per_group, which is {}",
                             dragonfly.switches_per_group()));
  }
}

// The switch of a device, counted from the first of its group.
std::uint32_t switch_of(const Dragonfly& dragonfly, std::uint32_t device) {
  const std::uint32_t per_node = dragonfly.switches_per_node();
  const std::uint64_t blocks = dragonfly.switches_per_group() / per_node;
  const std::uint64_t node = device / dragonfly.devices_per_node() % dragonfly.nodes_per_group();
  const auto block = static_cast<std::uint32_t>(node * blocks / dragonfly.nodes_per_group());
  return block * per_node + device % dragonfly.devices_per_node() % per_node;
}

void add_nic_cables(TopologyBuilder& builder, const Dragonfly& dragonfly, std::uint32_t devices,
                    NodeId first_switch) {
  const auto kind =
      builder.cable_kind(dragonfly.nic_link(), "nic_link", builder.link_class("NIC-switch"));
  const std::uint32_t per_group = dragonfly.nodes_per_group() * dragonfly.devices_per_node();
  for (std::uint32_t device = 0; device < devices; ++device) {
    const NodeId group = first_switch + device / per_group * dragonfly.switches_per_group();
    builder.add_cable(device, group + switch_of(dragonfly, device), kind);
  }
}

void add_local_cables(TopologyBuilder& builder, const Dragonfly& dragonfly, NodeId first_switch) {
  const std::uint32_t size = dragonfly.switches_per_group();
  if (size == 1) return;
  const auto kind = builder.cable_kind(dragonfly.local(), "local", builder.link_class("local"));
  for (std::uint32_t group = 0; group < dragonfly.groups(); ++group) {
    const NodeId first = first_switch + group * size;
    for (NodeId a = first; a < first + size; ++a) {
      for (NodeId b = a + 1; b < first + size; ++b) {
        for (std::uint32_t cable = 0; cable < dragonfly.local_cables(); ++cable)
          builder.add_cable(a, b, kind);
      }
    }
  }
}

// Group g's cables, counted by how far on (mod groups) the other group is, go to its switches in
// turn.
void add_global_cables(TopologyBuilder& builder, const Dragonfly& dragonfly, NodeId first_switch) {
  const std::uint32_t groups = dragonfly.groups();
  if (groups == 1) return;
  const auto kind = builder.cable_kind(dragonfly.global(), "global", builder.link_class("global"));
  const auto end = [&](std::uint32_t group, std::uint32_t other, std::uint32_t cable) {
    const std::uint64_t distance = (other + groups - group - 1) % groups;
    const std::uint64_t nth = distance * dragonfly.global_cables() + cable;
    return first_switch + group * dragonfly.switches_per_group() +
           static_cast<NodeId>(nth % dragonfly.switches_per_group());
  };
  for (std::uint32_t a = 0; a < groups; ++a) {
    for (std::uint32_t b = a + 1; b < groups; ++b) {
      for (std::uint32_t cable = 0; cable < dragonfly.global_cables(); ++cable)
        builder.add_cable(end(a, b, cable), end(b, a, cable), kind);
    }
  }
}

}  // namespace

Topology build_dragonfly(const Dragonfly& dragonfly, const std::string& where) {
  TopologyBuilder builder(where, "fabric.dragonfly");
  check(builder, dragonfly);
  const std::uint64_t groups = dragonfly.groups();
  const std::uint64_t size = dragonfly.switches_per_group();
  const std::uint64_t nodes = groups * dragonfly.nodes_per_group();
  const std::uint64_t devices = nodes * dragonfly.devices_per_node();
  // The scale-up network counts in 32 bits: its share is bounded first.
  builder.expect(devices + groups * size, devices);
  ScaleUpNodes scale_up(dragonfly.has_scale_up() ? &dragonfly.scale_up() : nullptr,
                        static_cast<std::uint32_t>(nodes), dragonfly.devices_per_node());
  const std::uint64_t local = groups * (size * (size - 1) / 2) * dragonfly.local_cables();
  const std::uint64_t global = groups * (groups - 1) / 2 * dragonfly.global_cables();
  builder.expect(devices + scale_up.switches() + groups * size,
                 scale_up.cables() + devices + local + global);

  const auto device_count = static_cast<std::uint32_t>(devices);
  for (std::uint32_t device = 0; device < device_count; ++device)
    builder.add_node(0, fmt::format("device{}", device));
  scale_up.add_switches(builder);
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (std::uint32_t nth = 0; nth < size; ++nth)
      builder.add_node(2, fmt::format("group{} switch{}", group, nth));
  }
  const NodeId first_switch = device_count + static_cast<NodeId>(scale_up.switches());
  scale_up.add_cables(builder);
  add_nic_cables(builder, dragonfly, device_count, first_switch);
  add_local_cables(builder, dragonfly, first_switch);
  add_global_cables(builder, dragonfly, first_switch);
  Topology topology = builder.finish(device_count, dragonfly.devices_per_node(), 1);
  topology.devices_forward = false;
  for (std::size_t i = 0; i < topology.link_classes.size(); ++i) {
    if (topology.link_classes[i] == "global") topology.class_length[i] = kGlobalLength;
    if (topology.link_classes[i] == "local" && dragonfly.adaptive()) topology.detour_class = i;
  }
  scale_up.mark(topology);
  return topology;
}

}  // namespace orrery::fabric
