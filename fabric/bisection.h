// Bisection bandwidth by maximum flow.
#pragma once

#include "fabric/topology.h"

namespace orrery::fabric {

/// GB/s that the lower half of the devices (0 … devices/2 - 1) can send to the upper half at once:
/// the maximum flow over all links (Dinic's algorithm). 0 for a single device.
double bisection_gb_per_s(const Topology& topology);

}  // namespace orrery::fabric
