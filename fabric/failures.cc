#include "fabric/failures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::fabric {
namespace {

// A mistyped name is compared with at most so many.
constexpr std::size_t kMostNames = 50'000;

std::string dotted(std::string_view name) {
  std::string out(name);
  // Nothing in a name may break a line.
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; }, '.');
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cables by the names of their ends.
class CableNames {
 public:
  explicit CableNames(const Topology& topology) : topology_(topology) {
    for (NodeId node = 0; node < topology.nodes(); ++node)
      nodes_.emplace(dotted(topology.names[node]), node);
  }

  /// The nodes at the ends of the cable called `name`; kNoNode twice if there is none. Node names
  /// may hold dashes: every dash is tried as the one between the ends.
  std::pair<NodeId, NodeId> find(std::string_view name) const {
    for (std::size_t dash = name.find('-'); dash != std::string_view::npos;
         dash = name.find('-', dash + 1)) {
      std::string_view rest = name.substr(dash + 1);
      if (!rest.empty() && (rest.front() == '>' || rest.front() == '-')) rest.remove_prefix(1);
      const auto a = nodes_.find(dotted(trimmed(name.substr(0, dash))));
      const auto b = nodes_.find(dotted(trimmed(rest)));
      if (a == nodes_.end() || b == nodes_.end()) continue;
      const auto links = topology_.links_from(a->second);
      if (std::any_of(links.begin(), links.end(),
                      [&](const Link& link) { return link.to == b->second; }))
        return std::minmax(a->second, b->second);
    }
    return {kNoNode, kNoNode};
  }

 private:
  const Topology& topology_;
  std::unordered_map<std::string, NodeId> nodes_;
};

std::string expected_name(const Topology& topology, const std::string& given) {
  if (topology.links.empty()) return "none: this fabric has no cables";
  std::vector<std::string> names;
  for (const Link& link : topology.links) {
    if (names.size() == kMostNames) break;
    if (link.from < link.to) names.push_back(cable_name(topology, link));
  }
  return fmt::format("a cable as orrery topo --links names it, e.g. {}{}", names.front(),
                     emu::did_you_mean(given, names));
}

std::vector<bool> failed_planes(const Topology& topology, const Fabric& fabric,
                                const std::string& where) {
  std::vector<bool> failed(topology.planes, false);
  for (const std::uint32_t plane : fabric.failed_planes()) {
    if (plane >= topology.planes) {
      throw emu::ConfigError(where, "fabric.failed_planes", std::to_string(plane),
                             topology.planes == 0
                                 ? "none: this fabric has no planes"
                                 : fmt::format("planes from 0 to {}", topology.planes - 1));
    }
    failed[plane] = true;
  }
  return failed;
}

std::vector<std::pair<NodeId, NodeId>> failed_cables(const Topology& topology, const Fabric& fabric,
                                                     const std::string& where) {
  std::vector<std::pair<NodeId, NodeId>> failed;
  if (fabric.failed_links().empty()) return failed;
  const CableNames names(topology);
  for (const std::string& name : fabric.failed_links()) {
    failed.push_back(names.find(name));
    if (failed.back().first == kNoNode) {
      throw emu::ConfigError(where, "fabric.failed_links", name, expected_name(topology, name));
    }
  }
  std::sort(failed.begin(), failed.end());
  return failed;
}

}  // namespace

std::string cable_name(const Topology& topology, const Link& link) {
  const auto [low, high] = std::minmax(link.from, link.to);
  return dotted(topology.names[low]) + "-" + dotted(topology.names[high]);
}

void remove_failed(Topology& topology, const Fabric& fabric, const std::string& where) {
  if (fabric.failed_planes().empty() && fabric.failed_links().empty()) return;
  const std::vector<bool> planes = failed_planes(topology, fabric, where);
  const auto cables = failed_cables(topology, fabric, where);
  const auto is_failed = [&](const Link& link) {
    if (link.plane != kNoPlane && planes[link.plane]) return true;
    const std::pair<NodeId, NodeId> ends = std::minmax(link.from, link.to);
    return std::binary_search(cables.begin(), cables.end(), ends);
  };
  std::vector<std::uint32_t> first(topology.first_link.size(), 0);
  std::vector<Link> left;
  left.reserve(topology.links.size());
  for (NodeId node = 0; node < topology.nodes(); ++node) {
    for (const Link& link : topology.links_from(node)) {
      if (!is_failed(link)) left.push_back(link);
    }
    first[node + 1] = static_cast<std::uint32_t>(left.size());
  }
  topology.failed_cables = (topology.links.size() - left.size()) / 2;
  topology.links = std::move(left);
  topology.first_link = std::move(first);
}

void check_reachable(const Topology& topology, const Routing& routing,
                     const std::vector<NodeId>& ports, const Fabric& fabric,
                     const std::string& where) {
  if (topology.failed_cables == 0) return;
  // Cables fail in both directions: a pair is cut off both ways or not at all.
  std::uint64_t cut_off = 0;
  std::pair<NodeId, NodeId> first;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    for (std::size_t j = i + 1; j < ports.size(); ++j) {
      if (routing.choices(ports[i], ports[j]) > 0) continue;
      if (cut_off++ == 0) first = {ports[i], ports[j]};
    }
  }
  if (cut_off == 0) return;
  const std::uint64_t pairs = std::uint64_t{ports.size()} * (ports.size() - 1) / 2;
  std::vector<std::string> fields;
  std::vector<std::string> values;
  if (!fabric.failed_planes().empty()) {
    fields.push_back("fabric.failed_planes");
    values.push_back(fmt::format("{}", fmt::join(fabric.failed_planes(), ",")));
  }
  if (!fabric.failed_links().empty()) {
    fields.push_back("fabric.failed_links");
    values.push_back(fmt::format("{}", fmt::join(fabric.failed_links(), ",")));
  }
  throw emu::ConfigError(
      where, fmt::format("{}", fmt::join(fields, " and ")),
      fmt::format("{}", fmt::join(values, " and ")),
      fmt::format("a path between every two devices of the run: {} of {} pair{} cut off, first "
                  "{} and {}",
                  cut_off, pairs, pairs == 1 ? " is" : "s are", topology.names[first.first],
                  topology.names[first.second]));
}

}  // namespace orrery::fabric
