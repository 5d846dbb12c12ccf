#include "fabric/generators/scale_up.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::fabric {

ScaleUpNodes::ScaleUpNodes(const ScaleUp* scale_up, std::uint32_t nodes,
                           std::uint32_t devices_per_node)
    : scale_up_(scale_up != nullptr && scale_up->enabled() && devices_per_node > 1 ? scale_up
                                                                                   : nullptr),
      nodes_(nodes),
      devices_per_node_(devices_per_node) {}

std::uint64_t ScaleUpNodes::switches() const {
  return exist() && !meshed() ? std::uint64_t{nodes_} * scale_up_->planes() : 0;
}

std::uint64_t ScaleUpNodes::cables() const {
  if (!exist()) return 0;
  const std::uint64_t devices = std::uint64_t{nodes_} * devices_per_node_;
  const std::uint64_t per_plane = meshed() ? devices * (devices_per_node_ - 1) / 2 : devices;
  return saturated_product(per_plane, scale_up_->planes());
}

void ScaleUpNodes::add_switches(TopologyBuilder& builder) {
  if (!exist() || meshed()) return;
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    for (std::uint32_t plane = 0; plane < scale_up_->planes(); ++plane) {
      const NodeId added = builder.add_node(1, fmt::format("up node{} plane{}", node, plane));
      if (first_switch_ == kNoNode) first_switch_ = added;
    }
  }
}

void ScaleUpNodes::add_cables(TopologyBuilder& builder) const {
  if (!exist()) return;
  const auto kind =
      builder.cable_kind(scale_up_->link(), "scale_up.link", builder.link_class(kLinkClass));
  const std::uint32_t planes = scale_up_->planes();
  for (std::uint32_t device = 0; device < nodes_ * devices_per_node_; ++device) {
    const std::uint32_t node = device / devices_per_node_;
    const NodeId first_peer = meshed() ? device + 1 : first_switch_ + node * planes;
    const NodeId end_of_peers = meshed() ? (node + 1) * devices_per_node_ : first_peer + 1;
    for (NodeId peer = first_peer; peer < end_of_peers; ++peer) {
      for (std::uint32_t plane = 0; plane < planes; ++plane) {
        builder.add_cable(device, meshed() ? peer : peer + plane, kind,
                          static_cast<std::uint16_t>(plane));
      }
    }
  }
}

void ScaleUpNodes::mark(Topology& topology) const {
  if (exist()) {
    const auto& classes = topology.link_classes;
    topology.scale_up_class = static_cast<std::size_t>(
        std::find(classes.begin(), classes.end(), kLinkClass) - classes.begin());
  }
  if (exist() && nodes_ == 1) return;
  topology.scale_up_domain.resize(topology.devices);
  for (NodeId device = 0; device < topology.devices; ++device) {
    topology.scale_up_domain[device] = exist() ? device / devices_per_node_ : device;
  }
}

}  // namespace orrery::fabric
