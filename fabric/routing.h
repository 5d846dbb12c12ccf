// Minimal routing: at every node, the links that lie on a shortest path to a device (fewest links,
// or least Topology::class_length where classes count differently).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/topology.h"

namespace orrery::fabric {

/// Next-hop tables, built by breadth-first search backwards from each group of devices that share
/// their neighbours, so that memory grows with nodes × groups and not with nodes × devices.
///
/// A direct link to the destination always wins; a device on the way (an n-dimensional mesh)
/// forwards like a switch, unless Topology::devices_forward says otherwise. Where there is a
/// scale-up network, the devices of one domain talk over it and over nothing else: with its links
/// failed they are cut off, for what is load and store cannot go on by NIC. Candidates are kept
/// relative to a node's first link, so that equal sets are stored once, and a node whose set is the
/// same for every group (a device, a first-tier switch) needs no table at all.
class Routing {
 public:
  /// Keeps a reference to `topology`. Throws ConfigError if the tables would not fit in 1 GiB.
  explicit Routing(const Topology& topology);

  /// The next link of a packet at `node` for device `destination` (≠ node). Among equal ones
  /// `choice` picks: its residue by their number; pass_on() then gives the choice to carry to the
  /// next node, so that one number picks independently at every stage. kNoLink if there is no path.
  LinkId next_link(NodeId node, NodeId destination, std::uint32_t choice) const {
    return next_step(node, destination, choice).link;
  }
  std::uint32_t pass_on(NodeId node, NodeId destination, std::uint32_t choice) const {
    return next_step(node, destination, choice).choice;
  }

  /// Both at once, for the hot path.
  struct Step {
    LinkId link;
    std::uint32_t choice;
  };
  Step next_step(NodeId node, NodeId destination, std::uint32_t choice) const {
    const List list = candidates(node, destination);
    const std::uint32_t first = nodes_[node].first_link;
    if (list.count == 1) return {first + relative_links_[list.first], choice};
    if (list.count == 0) return {kNoLink, choice};
    return {first + relative_links_[list.first + choice % list.count], choice / list.count};
  }

  /// How many links next_link() picks from.
  std::uint32_t choices(NodeId node, NodeId destination) const {
    return candidates(node, destination).count;
  }

  /// Links on a shortest path between two devices; 0 for the device itself, -1 if there is no path.
  int hops(NodeId source, NodeId destination) const;

  /// Switches on a shortest path between two devices (0 other die or direct link, 1, 3 for two
  /// tiers).
  int switches(NodeId source, NodeId destination) const;

  /// Sum of link latencies along the path that `choice` picks; kNever if there is no path.
  emu::Time latency(NodeId source, NodeId destination, std::uint32_t choice) const;

  /// Bytes of the tables.
  std::size_t table_bytes() const;

 private:
  // Equal links to pick from: relative_links_[first, first + count), counted from the node's first
  // link.
  struct List {
    std::uint32_t first;
    std::uint32_t count;
  };
  using ListId = std::uint32_t;
  static constexpr ListId kNoPath = 0;  // lists_[0] is empty
  static constexpr ListId kCutOff = 1;  // so is lists_[1], for a device of the own domain

  struct Node {
    std::uint32_t first_link = 0;
    // Devices one link away, and of a device those of its domain, lie in
    // [direct_low, direct_low + direct_span). Where they lie close
    // together direct_ holds one ListId per device of that range, else their sorted numbers, then
    // their ListIds.
    std::uint32_t direct_low = 0;
    std::uint32_t direct_span = 0;
    std::uint32_t direct_first = 0;
    std::uint32_t direct_sorted =
        0;                  // how many sorted numbers; 0: one entry per device of the range
    std::uint32_t row = 0;  // kSame | ListId, or the number of the row in table_
  };
  static constexpr std::uint32_t kSame = 1u << 31;

  List candidates(NodeId node, NodeId destination) const {
    const Node& at = nodes_[node];
    if (destination - at.direct_low < at.direct_span) {
      const ListId direct = direct_list(at, destination);
      if (direct != kNoPath) return lists_[direct];
    }
    if ((at.row & kSame) != 0) return lists_[at.row & ~kSame];
    return lists_[table_[std::size_t{at.row} * groups_ + group_of_[destination]]];
  }
  ListId direct_list(const Node& at, NodeId destination) const {
    if (at.direct_sorted == 0) return direct_[at.direct_first + (destination - at.direct_low)];
    const auto begin = direct_.begin() + at.direct_first;
    const auto end = begin + at.direct_sorted;
    const auto found = std::lower_bound(begin, end, destination);
    return found != end && *found == destination ? found[at.direct_sorted] : kNoPath;
  }

  class Builder;

  const Topology& topology_;
  std::uint32_t groups_ = 0;
  std::vector<std::uint32_t> group_of_;  // per device
  std::vector<Node> nodes_;
  std::vector<List> lists_;
  std::vector<std::uint32_t> relative_links_;
  std::vector<std::uint32_t> direct_;
  std::vector<ListId> table_;  // rows of groups_ entries
};

}  // namespace orrery::fabric
