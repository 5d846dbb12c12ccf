// What the generators of devices on an n-dimensional grid share: full_mesh and torus.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fabric/topology.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {

struct GridForm {
  std::string name;  // of the link classes: NAME for one dimension, NAME0 … NAME3 for up to four;
                     // beyond, the last class takes the rest
  // Cables of one device along a dimension of a size, counted at both ends.
  std::function<std::uint32_t(std::uint32_t size)> neighbours;
  // From the device at `position` of a dimension: the further positions that it adds a cable to.
  std::function<void(std::uint32_t position, std::uint32_t size,
                     const std::function<void(std::uint32_t)>& cable)>
      cables;
};

/// Devices on a grid, the first dimension running fastest, cables dimension by dimension. `Grid` is
/// a message with `dimensions` and `links`, one for all dimensions or one per dimension. Throws
/// ConfigError as TopologyBuilder does.
Topology build_grid(TopologyBuilder& builder, const GridForm& form,
                    const google::protobuf::RepeatedField<std::uint32_t>& dimensions,
                    const google::protobuf::RepeatedPtrField<LinkSpec>& links);

}  // namespace orrery::fabric
