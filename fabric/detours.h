// Adaptive routing: a packet that would queue on its shortest way takes one hop round the queue.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/time.h"
#include "fabric/topology.h"

namespace orrery::fabric {

struct LinkUse;

/// Detours within a group of switches that are all joined to each other (Topology::detour_class).
///
/// What a switch can see decides, its own queues, as with UGAL-L (Singh, "Load-balanced routing in
/// interconnection networks", 2005): a detour has twice the hops, so it is taken where the wait for
/// the shortest way is more than twice the wait for one other link, plus that link's latency; which
/// other one changes with every packet that keeps to the shortest way. Each packet takes at most
/// one. Deterministic: it knows nothing but the switch's own links.
class Detours {
 public:
  /// Keeps references.
  Detours(const Topology& topology, const std::vector<LinkUse>& uses);

  /// The link that a packet whose head is at a switch at `head` takes instead of `shortest`;
  /// `shortest` itself if no detour is better.
  LinkId better_than(LinkId shortest, emu::Time head) const;

 private:
  const Topology& topology_;
  const std::vector<LinkUse>& uses_;
  // The links of detour_class from each node: links_[first_[node], first_[node + 1]).
  std::vector<std::uint32_t> first_;
  std::vector<LinkId> links_;
};

}  // namespace orrery::fabric
