#include <fmt/format.h>

#include "fabric/generators/generators.h"
#include "fabric/generators/scale_up.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {
namespace {

// Where leaves and spines lie and who is on which leaf.
struct Tree {
  std::uint64_t nodes_per_pod = 0;
  std::uint64_t leaves_per_pod = 0;
  std::uint64_t leaves = 0;
  std::uint64_t spines = 0;

  Tree(const ScaleOut& scale_out, bool has_scale_up) {
    if (has_scale_up && scale_out.nodes() == 1) return;
    nodes_per_pod = scale_out.nodes_per_pod();
    if (nodes_per_pod == 0 || nodes_per_pod > scale_out.nodes()) nodes_per_pod = scale_out.nodes();
    leaves_per_pod = scale_out.rail_optimised()
                         ? std::uint64_t{scale_out.devices_per_node()} * scale_out.nics_per_device()
                         : 1;
    leaves = (scale_out.nodes() + nodes_per_pod - 1) / nodes_per_pod * leaves_per_pod;
    spines = leaves > 1 ? scale_out.spines() : 0;
  }
};

void add_tree_nodes(TopologyBuilder& builder, const Tree& tree) {
  for (std::uint64_t leaf = 0; leaf < tree.leaves; ++leaf) {
    const std::uint64_t pod = leaf / tree.leaves_per_pod;
    builder.add_node(2, tree.leaves_per_pod == 1
                            ? fmt::format("leaf pod{}", pod)
                            : fmt::format("leaf pod{} rail{}", pod, leaf % tree.leaves_per_pod));
  }
  for (std::uint64_t spine = 0; spine < tree.spines; ++spine)
    builder.add_node(3, fmt::format("spine{}", spine));
}

void add_nic_cables(TopologyBuilder& builder, const ScaleOut& scale_out, const Tree& tree,
                    std::uint32_t devices, NodeId first_leaf) {
  if (tree.leaves == 0) return;
  const auto kind =
      builder.cable_kind(scale_out.nic_link(), "nic_link", builder.link_class("NIC-leaf"));
  for (std::uint32_t device = 0; device < devices; ++device) {
    const std::uint64_t pod = device / scale_out.devices_per_node() / tree.nodes_per_pod;
    const std::uint64_t first_nic =
        std::uint64_t{device} % scale_out.devices_per_node() * scale_out.nics_per_device();
    for (std::uint32_t nic = 0; nic < scale_out.nics_per_device(); ++nic) {
      const std::uint64_t rail = scale_out.rail_optimised() ? first_nic + nic : 0;
      builder.add_cable(device, first_leaf + static_cast<NodeId>(pod * tree.leaves_per_pod + rail),
                        kind);
    }
  }
}

void add_uplinks(TopologyBuilder& builder, const ScaleOut& scale_out, const Tree& tree,
                 NodeId first_leaf) {
  if (tree.spines == 0) return;
  const auto kind =
      builder.cable_kind(scale_out.uplink(), "uplink", builder.link_class("leaf-spine"));
  const auto leaves = static_cast<std::uint32_t>(tree.leaves);
  const auto spines = static_cast<std::uint32_t>(tree.spines);
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    // Parallel cables last: d mod k over the choices then uses every spine first.
    for (std::uint32_t cable = 0; cable < scale_out.uplinks_per_spine(); ++cable) {
      for (std::uint32_t spine = 0; spine < spines; ++spine)
        builder.add_cable(first_leaf + leaf, first_leaf + leaves + spine, kind);
    }
  }
}

}  // namespace

Topology build_scale_out(const ScaleOut& scale_out, const std::string& where) {
  TopologyBuilder builder(where, "fabric.scale_out");
  if (scale_out.nodes() == 0) builder.fail("nodes", "nothing", "the number of nodes");
  if (scale_out.devices_per_node() == 0)
    builder.fail("devices_per_node", "nothing", "the number of devices");
  ScaleUpNodes nodes(scale_out.has_scale_up() ? &scale_out.scale_up() : nullptr, scale_out.nodes(),
                     scale_out.devices_per_node());
  const Tree tree(scale_out, nodes.exist());
  const std::uint64_t devices = std::uint64_t{scale_out.nodes()} * scale_out.devices_per_node();
  const std::uint64_t nics = tree.leaves == 0 ? 0 : devices * scale_out.nics_per_device();
  builder.expect(devices + nodes.switches() + tree.leaves + tree.spines,
                 nodes.cables() + nics +
                     saturated_product(tree.leaves * tree.spines, scale_out.uplinks_per_spine()));

  const auto device_count = static_cast<std::uint32_t>(devices);
  for (std::uint32_t device = 0; device < device_count; ++device)
    builder.add_node(0, fmt::format("device{}", device));
  nodes.add_switches(builder);
  add_tree_nodes(builder, tree);
  const NodeId first_leaf = device_count + static_cast<NodeId>(nodes.switches());
  nodes.add_cables(builder);
  add_nic_cables(builder, scale_out, tree, device_count, first_leaf);
  add_uplinks(builder, scale_out, tree, first_leaf);
  Topology topology = builder.finish(device_count, scale_out.devices_per_node(), 1);
  topology.devices_forward = false;
  nodes.mark(topology);
  return topology;
}

}  // namespace orrery::fabric
