// Fabrics for the tests: shipped files and short texts.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "emu/text_config.h"
#include "fabric/topology.h"

namespace orrery::fabric {

inline Fabric fabric_of(const std::string& text) {
  Fabric fabric;
  emu::parse_text(text, "test", fabric);
  return fabric;
}

inline Topology topology_of(const std::string& text) {
  return build_topology(fabric_of(text), "test");
}

/// The fabric { … } part of topologies/NAME.textproto. The rest of the file belongs to folders
/// above.
inline Fabric shipped_fabric(const std::string& name) {
  std::ifstream file("topologies/" + name + ".textproto");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::string open = "\nfabric {";
  const std::size_t begin = all.find(open);
  const std::size_t end = all.find("\n}", begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return fabric_of(all.substr(begin + open.size(), end - begin - open.size()));
}

/// The names of all files under topologies/, sorted.
inline std::vector<std::string> shipped_topologies() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("topologies")) {
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Every shape the generators make, small enough to check every pair of nodes.
inline const char* const kSmallFabrics[] = {
    "star { devices: 1 link { latency_ns: 1 gb_per_s: 1 } }",
    "star { devices: 9 link { latency_ns: 350 gb_per_s: 50 } }",
    "clos { nodes: 1 devices_per_node: 4 planes: 3 device_link { latency_ns: 5 gb_per_s: 2 } }",
    "clos { nodes: 3 devices_per_node: 2 planes: 2 spines_per_plane: 3 device_link { latency_ns: 5 "
    "gb_per_s: 2 }"
    " uplink { latency_ns: 7 gb_per_s: 2 } }",
    "clos { nodes: 4 devices_per_node: 6 planes: 3 spines_per_plane: 2 device_link { latency_ns: 5 "
    "gb_per_s: 2 }"
    " uplink { latency_ns: 7 gb_per_s: 2 } devices_per_package: 3 package_link { latency_ns: 1 "
    "gb_per_s: 9 } }",
    "clos { nodes: 2 devices_per_node: 1 device_link { latency_ns: 5 gb_per_s: 2 }"
    " uplink { latency_ns: 7 gb_per_s: 2 } }",
    "full_mesh { dimensions: 8 links { latency_ns: 1000 gb_per_s: 53.1 } }",
    "full_mesh { dimensions: [4, 3] links { latency_ns: 3 gb_per_s: 5 } links { latency_ns: 4 "
    "gb_per_s: 6 } }",
    "full_mesh { dimensions: [2, 3, 1, 4] links { latency_ns: 3 gb_per_s: 5 } }",
    "full_mesh { dimensions: [2, 2, 2, 2, 2] links { latency_ns: 3 gb_per_s: 5 } }",
    // A ring of devices, none of which shares its neighbours.
    "explicit_graph { devices: ['a', 'b', 'c', 'd', 'e'] cables: ["
    " {a: 'a' b: 'b' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'b' b: 'c' link { latency_ns: 1 "
    "gb_per_s: 1 }},"
    " {a: 'c' b: 'd' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'd' b: 'e' link { latency_ns: 1 "
    "gb_per_s: 1 }},"
    " {a: 'e' b: 'a' link { latency_ns: 1 gb_per_s: 1 }} ] }",
    // Devices that hang on others, parallel cables, a chain of switches named before the near ones.
    "explicit_graph { devices: ['a', 'b', 'c', 'd'] switches: ['far', 'left', 'right'] cables: ["
    " {a: 'a' b: 'left' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'left' b: 'a' link { latency_ns: "
    "1 gb_per_s: 1 }},"
    " {a: 'b' b: 'left' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'a' b: 'b' link { latency_ns: 1 "
    "gb_per_s: 1 }},"
    " {a: 'left' b: 'far' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'right' b: 'far' link { "
    "latency_ns: 1 gb_per_s: 1 }},"
    " {a: 'c' b: 'right' link { latency_ns: 1 gb_per_s: 1 }}, {a: 'd' b: 'c' link { latency_ns: 1 "
    "gb_per_s: 1 }} ] }",
    // Two rails of two pods, two scale-up planes, parallel uplinks.
    "scale_out { nodes: 4 devices_per_node: 2 scale_up { link { latency_ns: 1 gb_per_s: 9 } "
    "planes: 2 } nic_link { latency_ns: 5 gb_per_s: 2 } rail_optimised: true nodes_per_pod: 2"
    " spines: 2 uplink { latency_ns: 7 gb_per_s: 2 } uplinks_per_spine: 2 }",
    // A node and its NICs on one leaf: two ways of equal length between its devices.
    "scale_out { nodes: 3 devices_per_node: 3 scale_up { link { latency_ns: 1 gb_per_s: 9 } }"
    " nic_link { latency_ns: 5 gb_per_s: 2 } nics_per_device: 2 nodes_per_pod: 2"
    " uplink { latency_ns: 7 gb_per_s: 2 } }",
    // Two NICs per device on rails of their own; cables inside a node; the same without them.
    "scale_out { nodes: 2 devices_per_node: 4 scale_up { form: FULL_MESH link { latency_ns: 1 "
    "gb_per_s: 9 } } nic_link { latency_ns: 5 gb_per_s: 2 } nics_per_device: 2 rail_optimised: "
    "true spines: 3 uplink { latency_ns: 7 gb_per_s: 2 } }",
    "scale_out { nodes: 2 devices_per_node: 4 scale_up { enabled: false } nic_link { latency_ns: "
    "5 gb_per_s: 2 } }",
    "scale_out { nodes: 1 devices_per_node: 8 scale_up { link { latency_ns: 1 gb_per_s: 9 } } }",
    "dragonfly { groups: 5 switches_per_group: 4 nodes_per_group: 4 devices_per_node: 2"
    " switches_per_node: 2 nic_link { latency_ns: 5 gb_per_s: 2 } local { latency_ns: 3 gb_per_s: "
    "2 } global { latency_ns: 9 gb_per_s: 2 } scale_up { form: FULL_MESH link { latency_ns: 1 "
    "gb_per_s: 9 } } }",
    "dragonfly { groups: 3 switches_per_group: 2 nodes_per_group: 3 devices_per_node: 2"
    " nic_link { latency_ns: 5 gb_per_s: 2 } local { latency_ns: 3 gb_per_s: 2 } local_cables: 2"
    " global { latency_ns: 9 gb_per_s: 2 } global_cables: 3 scale_up { link { latency_ns: 1 "
    "gb_per_s: 9 } planes: 2 } }",
    "torus { dimensions: 5 links { latency_ns: 3 gb_per_s: 5 } }",
    "torus { dimensions: [4, 3] links { latency_ns: 3 gb_per_s: 5 } links { latency_ns: 4 "
    "gb_per_s: 6 } }",
    "torus { dimensions: [2, 3, 1, 2, 2] links { latency_ns: 3 gb_per_s: 5 } }",
};

}  // namespace orrery::fabric
