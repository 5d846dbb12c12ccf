// A topology in words and numbers: what `orrery topo` prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/routing.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// Pairs of devices whose paths have the same numbers of links and switches.
struct LatencyClass {
  int links;
  int switches;
  std::uint64_t pairs;      // ordered (source, destination), counted or, if sampled, extrapolated
  emu::Time least_latency;  // of the paths that choice 0 takes
  emu::Time most_latency;
};

/// Nearest first. Above kAllSources devices, kAllSources sources spread evenly stand for all.
std::vector<LatencyClass> latency_classes(const Topology& topology, const Routing& routing);
inline constexpr std::uint32_t kAllSources = 1024;

/// From the first of `ports` to each of the others, mean over those that it reaches, along the
/// paths that choice 0 takes; 0 if it reaches none.
emu::Time mean_latency(const Routing& routing, std::span<const NodeId> ports);

/// A table: devices, switches per tier, links per class (count, latency, bandwidth), bandwidth per
/// device, latency classes (links on the path, switches, number of device pairs, smallest latency),
/// bisection bandwidth between the lower and the upper half of the devices, diameter.
std::string summarise(const Topology& topology, const Routing& routing, const Fabric& fabric);

/// Graphviz: one node per device or switch, one edge per cable. Above 2,000 cables it draws nodes
/// of devices merged by their attachment (and switches of one tier likewise) and says so in a
/// comment.
std::string to_dot(const Topology& topology);

}  // namespace orrery::fabric
