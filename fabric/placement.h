// Which device ports a run uses, and in which order its ranks sit on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/topology.h"

namespace orrery::fabric {

/// Ranks 0 … count-1 on device ports. `how`: "packed" fills a node, then the next; "spread" deals
/// ranks over nodes one by one; or a list as "0-7,16,20-23" of exactly `count` distinct ports.
/// Throws ConfigError.
std::vector<NodeId> place(const Topology& topology, std::uint32_t count, const std::string& how);

}  // namespace orrery::fabric
