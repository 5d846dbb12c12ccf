#include "fabric/device_groups.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace orrery::fabric {
namespace {

// Numbers equal sets of nodes alike. Hashing is exact: equal hashes are compared.
class SetNumbers {
 public:
  std::uint32_t number(const std::vector<NodeId>& set) {
    std::uint64_t hash = set.size();
    for (const NodeId node : set) hash = (hash ^ node) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
    for (auto [at, end] = known_.equal_range(hash); at != end; ++at) {
      if (sets_[at->second] == set) return at->second;
    }
    const auto fresh = static_cast<std::uint32_t>(sets_.size());
    sets_.push_back(set);
    known_.emplace(hash, fresh);
    return fresh;
  }

 private:
  std::vector<std::vector<NodeId>> sets_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> known_;
};

// Nodes with a link to each device.
std::vector<std::vector<NodeId>> nodes_before(const Topology& topology) {
  std::vector<std::vector<NodeId>> before(topology.devices);
  for (const Link& link : topology.links) {
    if (topology.is_device(link.to)) before[link.to].push_back(link.from);
  }
  for (std::vector<NodeId>& nodes : before) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
  return before;
}

}  // namespace

DeviceGroups::DeviceGroups(const Topology& topology) : group_of(topology.devices) {
  std::vector<std::vector<NodeId>> before = nodes_before(topology);
  std::vector<std::uint32_t> switches(
      topology.devices);  // number of the set of switches before a device
  std::vector<std::uint32_t> clique(
      topology.devices);  // number of its device neighbours and itself
  SetNumbers numbers;
  for (NodeId device = 0; device < topology.devices; ++device) {
    const std::vector<NodeId>& nodes = before[device];  // sorted: devices, then switches
    const auto middle = std::lower_bound(nodes.begin(), nodes.end(), topology.devices);
    switches[device] = numbers.number({middle, nodes.end()});
    std::vector<NodeId> devices(nodes.begin(), middle);
    devices.insert(std::lower_bound(devices.begin(), devices.end(), device), device);
    clique[device] = numbers.number(devices);
  }
  std::unordered_map<std::uint32_t, std::uint32_t> group_of_switches;
  for (NodeId device = 0; device < topology.devices; ++device) {
    std::vector<NodeId>& nodes = before[device];
    const auto middle = std::lower_bound(nodes.begin(), nodes.end(), topology.devices);
    const bool shared = std::all_of(nodes.begin(), middle, [&](NodeId peer) {
      return switches[peer] == switches[device] && clique[peer] == clique[device];
    });
    const auto fresh = static_cast<std::uint32_t>(entrances.size());
    if (!shared) {
      group_of[device] = fresh;
      entrances.push_back(std::move(nodes));
      continue;
    }
    group_of[device] = group_of_switches.emplace(switches[device], fresh).first->second;
    if (group_of[device] == fresh) entrances.emplace_back(middle, nodes.end());
  }
}

}  // namespace orrery::fabric
