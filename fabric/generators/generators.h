// The generators behind build_topology(), one per member of Fabric.generator. A new one is a
// message in fabric.proto, a function here with a file of its own, and a line in build_topology().
// Each throws ConfigError with `where` as file.
#pragma once

#include <string>

#include "fabric/topology.h"

namespace orrery::fabric {

/// Devices, first-tier chips node-major (node 0 plane 0, node 0 plane 1, …), second tier
/// plane-major.
Topology build_clos(const Clos& clos, const std::string& where);

/// Device number: the first dimension runs fastest. One LinkSpec may stand for all dimensions.
Topology build_full_mesh(const FullMesh& mesh, const std::string& where);

/// Numbered as a full mesh.
Topology build_torus(const Torus& torus, const std::string& where);

Topology build_star(const Star& star, const std::string& where);

/// Switches are renumbered by tier, a switch's tier being its distance to the nearest device.
Topology build_explicit(const Explicit& graph, const std::string& where);

/// Devices, scale-up switches node-major, leaves pod-major, spines.
Topology build_scale_out(const ScaleOut& scale_out, const std::string& where);

/// Devices, scale-up switches node-major, then the switches of the groups, group-major.
Topology build_dragonfly(const Dragonfly& dragonfly, const std::string& where);

}  // namespace orrery::fabric
