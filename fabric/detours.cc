#include "fabric/detours.h"

#include <algorithm>

#include "fabric/network.h"

namespace orrery::fabric {

Detours::Detours(const Topology& topology, const std::vector<LinkUse>& uses)
    : topology_(topology), uses_(uses) {
  if (topology.detour_class == Topology::kMaxLinkClasses) return;
  first_.push_back(0);
  for (NodeId node = 0; node < topology.nodes(); ++node) {
    for (LinkId id = topology.first_link[node]; id < topology.first_link[node + 1]; ++id) {
      if (topology.links[id].link_class == topology.detour_class) links_.push_back(id);
    }
    first_.push_back(static_cast<std::uint32_t>(links_.size()));
  }
}

LinkId Detours::better_than(LinkId shortest, emu::Time head) const {
  const Link& link = topology_.links[shortest];
  if (link.link_class != topology_.detour_class) return shortest;
  const LinkUse& use = uses_[shortest];
  const emu::Time wait = std::max(use.free, head) - head;
  if (wait <= link.latency) return shortest;
  const std::uint32_t first = first_[link.from];
  const std::uint32_t count = first_[link.from + 1] - first;
  // What the shortest way has carried so far picks: the next one when a packet has kept to it.
  const LinkId other = links_[first + use.packets % count];
  if (topology_.links[other].to == link.to) return shortest;
  const emu::Time other_wait = std::max(uses_[other].free, head) - head;
  return wait > 2 * other_wait + topology_.links[other].latency ? other : shortest;
}

}  // namespace orrery::fabric
