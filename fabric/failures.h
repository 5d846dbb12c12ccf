// Cables that failed: what of a graph is left, and which devices no longer reach each other.
#pragma once

#include <string>
#include <vector>

#include "fabric/routing.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// A cable as `failed_links` takes it and `orrery topo --links` prints it: the names of its two
/// ends, that of the lower node first, with dots for spaces: "die47-L1.node2.plane4". Cables
/// between the same two nodes share one name.
std::string cable_name(const Topology& topology, const Link& link);

/// Removes both directions of every cable of a failed plane and of every failed link. A link's name
/// is taken with its ends in either order, with spaces or dots in them, and " -> " or "--" for the
/// dash. Throws ConfigError (with `where` as file) for a plane or cable that there is not.
void remove_failed(Topology& topology, const Fabric& fabric, const std::string& where);

/// Throws ConfigError if failures have cut some of `ports` off from others: how many pairs, and the
/// first in the order of `ports`.
void check_reachable(const Topology& topology, const Routing& routing,
                     const std::vector<NodeId>& ports, const Fabric& fabric,
                     const std::string& where);

}  // namespace orrery::fabric
