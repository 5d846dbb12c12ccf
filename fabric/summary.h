// A topology in words and numbers: what `orrery topo` prints.
#pragma once

#include <string>

#include "fabric/routing.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// A table: devices, switches per tier, links per class (count, latency, bandwidth), bandwidth per device,
/// latency classes (links on the path, switches, number of device pairs, smallest latency), bisection
/// bandwidth between the lower and the upper half of the devices, diameter.
std::string summarise(const Topology& topology, const Routing& routing, const Fabric& fabric);

/// Graphviz: one node per device or switch, one edge per cable. Above 2,000 cables it draws nodes of devices
/// merged by their attachment and says so in a comment.
std::string to_dot(const Topology& topology);

}  // namespace orrery::fabric
