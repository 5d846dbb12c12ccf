#include "fabric/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "fabric/bisection.h"

namespace orrery::fabric {
namespace {

constexpr std::size_t kMostFlowLinks = 1u << 20;  // maximum flow takes seconds beyond

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

double ns(emu::Time time) { return static_cast<double>(time) / 1e3; }

// "464.5" or "218 to 929.25" without trailing zeros.
std::string span(double least, double most) {
  return least == most ? fmt::format("{:.10g}", least)
                       : fmt::format("{:.10g} to {:.10g}", least, most);
}

struct ClassFacts {
  std::uint64_t links = 0;
  double latency_least = 0, latency_most = 0;
  double rate_least = 0, rate_most = 0;
};

std::vector<ClassFacts> facts_per_class(const Topology& topology) {
  std::vector<ClassFacts> classes(topology.link_classes.size());
  for (const Link& link : topology.links) {
    ClassFacts& facts = classes[link.link_class];
    const double latency = ns(link.latency);
    const double rate = link.rate.gb_per_s();
    const bool first = facts.links++ == 0;
    facts.latency_least = first ? latency : std::min(facts.latency_least, latency);
    facts.latency_most = first ? latency : std::max(facts.latency_most, latency);
    facts.rate_least = first ? rate : std::min(facts.rate_least, rate);
    facts.rate_most = first ? rate : std::max(facts.rate_most, rate);
  }
  return classes;
}

template <typename... Values>
void line(std::string& out, const char* label, const char* format, const Values&... values) {
  fmt::format_to(std::back_inserter(out), "{:<22}", label);
  fmt::vformat_to(std::back_inserter(out), format, fmt::make_format_args(values...));
  out += '\n';
}

void add_nodes(std::string& out, const Topology& topology) {
  line(out, "devices", "{}", topology.devices);
  if (topology.devices_per_node < topology.devices)
    line(out, "devices per node", "{}", topology.devices_per_node);
  if (topology.devices_per_package > 1)
    line(out, "devices per package", "{}", topology.devices_per_package);
  if (topology.planes > 1) line(out, "planes", "{}", topology.planes);
  std::map<int, std::uint32_t> switches;
  for (const std::uint8_t tier : topology.tier) {
    if (tier > 0) ++switches[tier];
  }
  for (const auto& [tier, count] : switches)
    line(out, fmt::format("tier {} switches", tier).c_str(), "{}", count);
}

void add_links(std::string& out, const Topology& topology) {
  out += "\nlink class            cables   latency_ns            gb_per_s (per direction)\n";
  const std::vector<ClassFacts> classes = facts_per_class(topology);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "  {:<18}{:>8}   {:<22}{}\n", topology.link_classes[i],
                   classes[i].links / 2, span(classes[i].latency_least, classes[i].latency_most),
                   span(classes[i].rate_least, classes[i].rate_most));
  }
}

void add_device_bandwidth(std::string& out, const Topology& topology) {
  out += "\nbandwidth out of a device, gb_per_s\n";
  for (std::size_t c = 0; c < topology.link_classes.size(); ++c) {
    double least = 0, most = 0;
    for (NodeId device = 0; device < topology.devices; ++device) {
      double sum = 0;
      for (const Link& link : topology.links_from(device))
        sum += link.link_class == c ? link.rate.gb_per_s() : 0;
      least = device == 0 ? sum : std::min(least, sum);
      most = std::max(most, sum);
    }
    if (most > 0)
      fmt::format_to(std::back_inserter(out), "  {:<18}{}\n", topology.link_classes[c],
                     span(least, most));
  }
}

void add_paths(std::string& out, const Topology& topology, const Routing& routing) {
  const std::vector<LatencyClass> classes = latency_classes(topology, routing);
  fmt::format_to(std::back_inserter(out),
                 "\nlinks on the path   switches   device pairs   latency_ns{}\n",
                 topology.devices > kAllSources ? "   (from a sample of sources)" : "");
  for (const LatencyClass& paths : classes) {
    if (paths.links < 0) {
      fmt::format_to(std::back_inserter(out), "  no path{:>35}\n", paths.pairs);
    } else {
      fmt::format_to(std::back_inserter(out), "{:>17}{:>11}{:>15}   {}\n", paths.links,
                     paths.switches, paths.pairs,
                     span(ns(paths.least_latency), ns(paths.most_latency)));
    }
  }
  out += '\n';
  const int diameter = classes.empty() ? 0 : std::max(classes.back().links, 0);
  line(out, "diameter", "{} links", diameter);
}

// What failed, as the settings say it, and what that leaves.
void add_failures(std::string& out, const Topology& topology, const Fabric& fabric) {
  if (topology.failed_cables == 0) return;
  const std::uint64_t all = topology.links.size() / 2 + topology.failed_cables;
  if (!fabric.failed_planes().empty()) {
    const std::string planes = fmt::format("{}", fmt::join(fabric.failed_planes(), ", "));
    line(out, "failed planes", "{}", planes);
  }
  for (const std::string& link : fabric.failed_links()) line(out, "failed link", "{}", link);
  line(out, "failed cables", "{} of {}, gone from all that follows", topology.failed_cables, all);
}

void add_fabric(std::string& out, const Fabric& fabric) {
  const std::string scope = lower(Fabric::OrderScope_Name(fabric.order_scope()));
  const std::string kind = lower(Fabric::OrderKind_Name(fabric.order_kind()));
  const std::string plane = lower(Fabric::PlaneChoice_Name(fabric.plane_choice()));
  const std::string per = lower(Fabric::ChoicePer_Name(fabric.choice_per()));
  const std::string ack = lower(Fabric::AckAt_Name(fabric.ack_at()));
  const std::uint32_t block = fabric.atomic_block_bytes();
  const std::uint32_t packet = fabric.packet_bytes();
  const std::uint32_t header = fabric.header_bytes();
  line(out, "atomic block", "{} bytes", block);
  line(out, "order", "{}, {}", scope, kind);
  line(out, "acknowledged when", "{}", ack);
  line(out, "packets", "{} bytes and a header of {}", packet, header);
  line(out, "plane choice", "{} per {}", plane, per);
  line(out, "switch choice", "{}", lower(Fabric::SwitchChoice_Name(fabric.switch_choice())));
}

}  // namespace

std::vector<LatencyClass> latency_classes(const Topology& topology, const Routing& routing) {
  std::map<std::pair<int, int>, LatencyClass> classes;
  const std::uint32_t sources = std::min(topology.devices, kAllSources);
  for (std::uint32_t i = 0; i < sources; ++i) {
    const auto source = static_cast<NodeId>(std::uint64_t{i} * topology.devices / sources);
    for (NodeId destination = 0; destination < topology.devices; ++destination) {
      if (destination == source) continue;
      const int links = routing.hops(source, destination);
      const int switches = routing.switches(source, destination);
      const emu::Time latency = routing.latency(source, destination, 0);
      LatencyClass& paths =
          classes.try_emplace({links, switches}, LatencyClass{links, switches, 0, latency, latency})
              .first->second;
      ++paths.pairs;
      paths.least_latency = std::min(paths.least_latency, latency);
      paths.most_latency = std::max(paths.most_latency, latency);
    }
  }
  std::vector<LatencyClass> out;
  for (auto& [key, paths] : classes) {
    paths.pairs = paths.pairs * topology.devices / sources;
    out.push_back(paths);
  }
  return out;
}

emu::Time mean_latency(const Routing& routing, std::span<const NodeId> ports) {
  emu::Time sum = 0;
  emu::Time reached = 0;
  for (std::size_t i = 1; i < ports.size(); ++i) {
    const emu::Time latency = routing.latency(ports.front(), ports[i], 0);
    if (latency == emu::kNever) continue;
    sum += latency;
    ++reached;
  }
  return reached == 0 ? 0 : sum / reached;
}

std::string summarise(const Topology& topology, const Routing& routing, const Fabric& fabric) {
  std::string out;
  add_nodes(out, topology);
  add_failures(out, topology, fabric);
  add_links(out, topology);
  add_device_bandwidth(out, topology);
  add_paths(out, topology, routing);
  if (topology.links.size() <= kMostFlowLinks) {
    const double bisection = bisection_gb_per_s(topology);
    line(out, "bisection", "{:.10g} gb_per_s per direction, lower to upper half of the devices",
         bisection);
  } else {
    line(out, "bisection", "not computed above {} links", kMostFlowLinks);
  }
  add_fabric(out, fabric);
  return out;
}

}  // namespace orrery::fabric
