// Devices that every packet from afar reaches by the same links, so that routing keeps one entry
// for them.
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/topology.h"

namespace orrery::fabric {

/// Two devices are in one group if the same switches lead to them, unless some path from outside
/// could come in by way of another device. For the latter a device's direct device neighbours must
/// all hang on the same switches and know each other (a package); any other device (a mesh, say) is
/// a group of its own.
struct DeviceGroups {
  explicit DeviceGroups(const Topology& topology);

  std::vector<std::uint32_t> group_of;         // per device
  std::vector<std::vector<NodeId>> entrances;  // per group: the nodes one link before its devices
};

}  // namespace orrery::fabric
