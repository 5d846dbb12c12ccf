// A topology and the paths through it: read only, so that several emulations may share one.
#pragma once

#include <string>
#include <utility>

#include "fabric/link_removal.h"
#include "fabric/routing.h"
#include "fabric/topology.h"

namespace orrery::fabric {

struct Wiring {
  /// Throws ConfigError as build_topology() and Routing do.
  Wiring(const Fabric& fabric, const std::string& where, const LinkRemoval& removed = {})
      : topology(without(build_topology(fabric, where), removed)), routing(topology) {}
  Wiring(const Wiring&) = delete;
  Wiring& operator=(const Wiring&) = delete;

  const Topology topology;
  const Routing routing;
};

}  // namespace orrery::fabric
