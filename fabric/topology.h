// A fabric's graph: device ports, switches and directed links, as a generator built it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/time.h"
#include "fabric/fabric.pb.h"

namespace orrery::fabric {

using NodeId = std::uint32_t;
using LinkId = std::uint32_t;
inline constexpr NodeId kNoNode = ~NodeId{0};
inline constexpr LinkId kNoLink = ~LinkId{0};
inline constexpr std::uint16_t kNoPlane = 0xffff;

/// One direction of a cable. Its queue belongs to `from` (R2).
struct Link {
  NodeId from;
  NodeId to;
  emu::Time latency;
  emu::Rate rate;
  std::uint8_t link_class;  // index into Topology::link_classes
  std::uint16_t plane;      // kNoPlane for a cable that belongs to none
};

/// Nodes are numbered devices first (0 … devices-1), then switches tier by tier.
struct Topology {
  std::uint32_t devices = 0;
  std::uint32_t devices_per_node = 0;  // for placement; equals `devices` where there are no nodes
  std::uint32_t devices_per_package = 1;
  std::uint32_t planes = 0;               // parallel planes, failed ones too; 0: the graph has none
  bool devices_forward = true;            // a device hands on packets for others, as in a mesh
  std::uint64_t failed_cables = 0;        // not among the links: planes and cables that failed
  std::vector<std::uint8_t> tier;         // per node: 0 device, 1 first-tier switch, 2 …
  std::vector<std::string> names;         // per node, e.g. "die17", "L1 node3 plane2"
  std::vector<Link> links;                // sorted by `from`
  std::vector<std::uint32_t> first_link;  // links of node n: [first_link[n], first_link[n+1])
  std::vector<std::string>
      link_classes;  // e.g. "package", "device-L1", "L1-L2"; at most kMaxLinkClasses
  static constexpr std::size_t kMaxLinkClasses = 4;
  // Per device, where a scale-up network joins some devices and a scale-out network the rest: the
  // number of the domain whose load/store network the device is on. Devices on no such network have
  // a domain each. Empty: all devices are in one domain.
  std::vector<std::uint32_t> scale_up_domain;
  // The class of the scale-up network's links, which carry all that stays in a domain and nothing
  // else; kMaxLinkClasses: no two networks, every link is for all.
  std::size_t scale_up_class = kMaxLinkClasses;
  // The class of links over which packets may go round a queue (fabric/detours.h); kMaxLinkClasses:
  // all keep to shortest paths.
  std::size_t detour_class = kMaxLinkClasses;
  // By link class: how many links of a path one counts for when routing looks for the shortest. The
  // last link of a path counts for one.
  std::array<std::uint8_t, kMaxLinkClasses> class_length{1, 1, 1, 1};

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(tier.size()); }
  bool is_device(NodeId node) const { return node < devices; }
  std::span<const Link> links_from(NodeId node) const {
    return {links.data() + first_link[node], links.data() + first_link[node + 1]};
  }
  /// Whether bytes between two devices leave the scale-up network: they go from NIC to NIC. False
  /// for a device and itself.
  bool is_scale_out(NodeId a, NodeId b) const {
    return !scale_up_domain.empty() && scale_up_domain[a] != scale_up_domain[b];
  }
};

/// Builds the graph of `fabric`, without what failed. Throws ConfigError (with `where` as file)
/// when sizes do not fit: more than 2^20 nodes, a missing link specification, an unknown or
/// duplicate node name, no generator, a failed plane or cable that there is not.
Topology build_topology(const Fabric& fabric, const std::string& where);

}  // namespace orrery::fabric
