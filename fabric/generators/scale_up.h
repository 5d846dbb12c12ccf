// What generators of scale-out networks share: nodes whose devices have a load/store network of
// their own.
#pragma once

#include <cstdint>

#include "fabric/topology_builder.h"

namespace orrery::fabric {

/// Usage: add_switches() after the devices, add_cables() before those of the NICs, mark() on the
/// finished graph.
class ScaleUpNodes {
 public:
  /// No network if `scale_up` is null or not enabled, or a node is a single device.
  ScaleUpNodes(const ScaleUp* scale_up, std::uint32_t nodes, std::uint32_t devices_per_node);

  bool exist() const { return scale_up_ != nullptr; }
  std::uint64_t switches() const;
  std::uint64_t cables() const;

  void add_switches(TopologyBuilder& builder);

  /// Throws ConfigError if the link lacks its latency or bandwidth.
  void add_cables(TopologyBuilder& builder) const;

  /// Fills in scale_up_domain and scale_up_class.
  void mark(Topology& topology) const;

  static constexpr const char* kLinkClass = "scale-up";

 private:
  bool meshed() const { return scale_up_->form() == ScaleUp::FULL_MESH; }

  const ScaleUp* scale_up_;
  std::uint32_t nodes_;
  std::uint32_t devices_per_node_;
  NodeId first_switch_ = kNoNode;
};

}  // namespace orrery::fabric
