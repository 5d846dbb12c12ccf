// A topology without some cost of its links: what the same run would take if that were free.
#pragma once

#include <algorithm>
#include <cstdint>

#include "emu/time.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// Link classes by bit (bit c: Topology::link_classes[c]).
struct LinkRemoval {
  std::uint8_t latency = 0;    // to kRemovedLatency
  std::uint8_t bandwidth = 0;  // to an unlimited rate: no serialisation, hence no queue
};

/// What is left of a removed latency. Not zero: processes look ahead by the latency of a link, and
/// a picosecond would have them meet at every event.
inline constexpr emu::Time kRemovedLatency = emu::kNanosecond;

inline Topology without(Topology topology, const LinkRemoval& removed) {
  for (Link& link : topology.links) {
    if (((removed.latency >> link.link_class) & 1) != 0) {
      link.latency = std::min(link.latency, kRemovedLatency);
    }
    if (((removed.bandwidth >> link.link_class) & 1) != 0) link.rate = emu::Rate();
  }
  return topology;
}

}  // namespace orrery::fabric
