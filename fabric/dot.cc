// to_dot() of summary.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "fabric/summary.h"

namespace orrery::fabric {
namespace {

constexpr std::size_t kMostCables = 2000;

std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// Which drawn node stands for each node, and what it is called.
struct Drawing {
  std::vector<std::uint32_t> drawn;
  std::vector<std::string> labels;
  std::vector<bool> is_device;
};

Drawing every_node(const Topology& topology) {
  Drawing drawing;
  for (NodeId node = 0; node < topology.nodes(); ++node) {
    drawing.drawn.push_back(node);
    drawing.labels.push_back(escaped(topology.names[node]));
    drawing.is_device.push_back(topology.is_device(node));
  }
  return drawing;
}

// Nodes of one tier become one if the same nodes of other tiers are their neighbours.
Drawing merged(const Topology& topology) {
  using Key = std::pair<std::uint8_t, std::vector<NodeId>>;
  Drawing drawing;
  std::map<Key, std::uint32_t> known;
  std::vector<std::uint32_t> sizes;
  for (NodeId node = 0; node < topology.nodes(); ++node) {
    Key key{topology.tier[node], {}};
    for (const Link& link : topology.links_from(node)) {
      if (topology.tier[link.to] != topology.tier[node]) key.second.push_back(link.to);
    }
    std::sort(key.second.begin(), key.second.end());
    const auto [entry, fresh] =
        known.emplace(std::move(key), static_cast<std::uint32_t>(sizes.size()));
    if (fresh) {
      sizes.push_back(0);
      drawing.labels.push_back(escaped(topology.names[node]));
      drawing.is_device.push_back(topology.is_device(node));
    }
    ++sizes[entry->second];
    drawing.drawn.push_back(entry->second);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) drawing.labels[i] = fmt::format("{} like {}", sizes[i], drawing.labels[i]);
  }
  return drawing;
}

}  // namespace

std::string to_dot(const Topology& topology) {
  const bool merge = topology.links.size() / 2 > kMostCables;
  const Drawing drawing = merge ? merged(topology) : every_node(topology);
  std::string out = "graph fabric {\n";
  const auto end = std::back_inserter(out);
  if (merge) {
    fmt::format_to(
        end, "  // {} cables: devices and switches with the same attachment are drawn as one\n",
        topology.links.size() / 2);
  }
  for (std::size_t i = 0; i < drawing.labels.size(); ++i) {
    fmt::format_to(end, "  n{} [label=\"{}\", shape={}];\n", i, drawing.labels[i],
                   drawing.is_device[i] ? "box" : "ellipse");
  }
  // A cable is two links; the one from the lower node stands for it.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::uint32_t> cables;
  for (const Link& link : topology.links) {
    if (link.from > link.to) continue;
    const std::uint32_t a = drawing.drawn[link.from];
    const std::uint32_t b = drawing.drawn[link.to];
    if (merge) {
      if (a != b) ++cables[{a, b, link.link_class}];
    } else {
      fmt::format_to(end, "  n{} -- n{} [label=\"{}\"];\n", a, b,
                     escaped(topology.link_classes[link.link_class]));
    }
  }
  for (const auto& [cable, count] : cables) {
    const auto& [a, b, link_class] = cable;
    fmt::format_to(end, "  n{} -- n{} [label=\"{} x {}\"];\n", a, b, count,
                   escaped(topology.link_classes[link_class]));
  }
  return out + "}\n";
}

}  // namespace orrery::fabric
