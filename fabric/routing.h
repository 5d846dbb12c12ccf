// Minimal routing: at every node, the links that lie on a shortest path (fewest links) to a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fabric/topology.h"

namespace orrery::fabric {

/// Next-hop tables, built by breadth-first search backwards from each group of devices that share their
/// neighbours, so that memory grows with nodes × groups and not with nodes × devices.
class Routing {
 public:
  /// Keeps a reference to `topology`.
  explicit Routing(const Topology& topology);

  /// The next link of a packet at `node` for device `destination` (≠ node). Among equal ones `choice` picks:
  /// its residue by their number; pass_on() then gives the choice to carry to the next node, so that one
  /// number picks independently at every stage. kNoLink if there is no path.
  LinkId next_link(NodeId node, NodeId destination, std::uint32_t choice) const;
  std::uint32_t pass_on(NodeId node, NodeId destination, std::uint32_t choice) const;

  /// Links on a shortest path between two devices; 0 for the device itself, -1 if there is no path.
  int hops(NodeId source, NodeId destination) const;

  /// Switches on a shortest path between two devices (0 other die or direct link, 1, 3 for two tiers).
  int switches(NodeId source, NodeId destination) const;

  /// Sum of link latencies along the path that `choice` picks.
  emu::Time latency(NodeId source, NodeId destination, std::uint32_t choice) const;

 private:
  const Topology& topology_;
};

}  // namespace orrery::fabric
