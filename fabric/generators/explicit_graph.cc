#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "fabric/generators/generators.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {
namespace {

// The graph in the order of the file, before switches are sorted by tier.
struct Sketch {
  std::vector<std::string> names;  // devices, then switches
  std::unordered_map<std::string, std::uint32_t> number;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;  // per cable
  std::vector<std::vector<std::uint32_t>> neighbours;
};

void add_names(const TopologyBuilder& builder, Sketch& sketch, const std::string& field,
               const google::protobuf::RepeatedPtrField<std::string>& names) {
  for (int i = 0; i < names.size(); ++i) {
    const std::string path = fmt::format("{}.{}", field, i);
    if (names[i].empty()) builder.fail(path, "", "a name");
    if (!sketch.number.emplace(names[i], sketch.names.size()).second) {
      builder.fail(path, names[i], "a name that no other device or switch has");
    }
    sketch.names.push_back(names[i]);
  }
}

std::uint32_t find(const TopologyBuilder& builder, const Sketch& sketch, int cable, const char* end,
                   const std::string& name) {
  const auto found = sketch.number.find(name);
  if (found == sketch.number.end()) {
    builder.fail(fmt::format("cables.{}.{}", cable, end), name, "the name of a device or switch");
  }
  return found->second;
}

void add_cables(const TopologyBuilder& builder, Sketch& sketch, const Explicit& graph) {
  sketch.neighbours.resize(sketch.names.size());
  for (int i = 0; i < graph.cables_size(); ++i) {
    const Explicit::Cable& cable = graph.cables(i);
    const std::uint32_t a = find(builder, sketch, i, "a", cable.a());
    const std::uint32_t b = find(builder, sketch, i, "b", cable.b());
    if (a == b)
      builder.fail(fmt::format("cables.{}.b", i), cable.b(), "another node than the cable's a");
    if (cable.link_class().empty())
      builder.fail(fmt::format("cables.{}.link_class", i), "", "a name");
    sketch.ends.emplace_back(a, b);
    sketch.neighbours[a].push_back(b);
    sketch.neighbours[b].push_back(a);
  }
}

// Cables to the nearest of the nodes 0 … sources-1; ~0 where there is no path.
std::vector<std::uint32_t> distances(const Sketch& sketch, std::uint32_t sources) {
  std::vector<std::uint32_t> distance(sketch.names.size(), ~0u);
  std::vector<std::uint32_t> queue(sources);
  std::iota(queue.begin(), queue.end(), 0u);
  std::fill_n(distance.begin(), sources, 0u);
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const std::uint32_t next : sketch.neighbours[queue[head]]) {
      if (distance[next] != ~0u) continue;
      distance[next] = distance[queue[head]] + 1;
      queue.push_back(next);
    }
  }
  return distance;
}

}  // namespace

Topology build_explicit(const Explicit& graph, const std::string& where) {
  TopologyBuilder builder(where, "fabric.explicit_graph");
  const auto devices = static_cast<std::uint32_t>(graph.devices_size());
  if (devices == 0) builder.fail("devices", "nothing", "at least one device name");
  builder.expect(std::uint64_t{devices} + static_cast<std::uint64_t>(graph.switches_size()),
                 static_cast<std::uint64_t>(graph.cables_size()));
  Sketch sketch;
  add_names(builder, sketch, "devices", graph.devices());
  add_names(builder, sketch, "switches", graph.switches());
  add_cables(builder, sketch, graph);
  const std::vector<std::uint32_t> from_first = distances(sketch, 1);
  const auto lost = std::find(from_first.begin(), from_first.end(), ~0u);
  if (lost != from_first.end()) {
    builder.fail(
        "cables",
        "none that leads to " + sketch.names[static_cast<std::size_t>(lost - from_first.begin())],
        fmt::format("a path from {} to every device and switch", sketch.names[0]));
  }

  const std::vector<std::uint32_t> tier = distances(sketch, devices);
  std::vector<std::uint32_t> order(sketch.names.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return tier[a] < tier[b]; });
  std::vector<NodeId> node_of(order.size());
  for (const std::uint32_t sketched : order) {
    node_of[sketched] = builder.add_node(static_cast<std::uint8_t>(std::min(tier[sketched], 255u)),
                                         sketch.names[sketched]);
  }
  for (int i = 0; i < graph.cables_size(); ++i) {
    const Explicit::Cable& cable = graph.cables(i);
    const auto kind = builder.cable_kind(cable.link(), fmt::format("cables.{}.link", i),
                                         builder.link_class(cable.link_class()));
    const auto [a, b] = sketch.ends[static_cast<std::size_t>(i)];
    builder.add_cable(node_of[a], node_of[b], kind);
  }
  return builder.finish(devices, devices, 1);
}

}  // namespace orrery::fabric
