#include "fabric/topology_builder.h"

#include <algorithm>
#include <utility>

#include "emu/errors.h"

namespace orrery::fabric {

void TopologyBuilder::fail(const std::string& field, const std::string& value,
                           const std::string& expectation) const {
  throw emu::ConfigError(where_, field.empty() ? generator_ : generator_ + "." + field, value,
                         expectation);
}

void TopologyBuilder::expect(std::uint64_t nodes, std::uint64_t cables) {
  if (nodes > kMaxNodes)
    fail("", std::to_string(nodes) + " devices and switches", "at most 1048576");
  if (cables > kMaxLinks / 2) fail("", std::to_string(cables) + " cables", "at most 33554432");
  topology_.tier.reserve(nodes);
  topology_.names.reserve(nodes);
  cables_.reserve(cables);
}

NodeId TopologyBuilder::add_node(std::uint8_t tier, std::string name) {
  topology_.tier.push_back(tier);
  topology_.names.push_back(std::move(name));
  return static_cast<NodeId>(topology_.tier.size() - 1);
}

std::uint8_t TopologyBuilder::link_class(const std::string& name) {
  std::vector<std::string>& classes = topology_.link_classes;
  const auto known = std::find(classes.begin(), classes.end(), name);
  if (known != classes.end()) return static_cast<std::uint8_t>(known - classes.begin());
  if (classes.size() == Topology::kMaxLinkClasses) {
    fail("", "link class " + name,
         "at most " + std::to_string(Topology::kMaxLinkClasses) + " link classes");
  }
  classes.push_back(name);
  return static_cast<std::uint8_t>(classes.size() - 1);
}

std::uint32_t TopologyBuilder::cable_kind(const LinkSpec& spec, const std::string& field,
                                          std::uint8_t link_class) {
  if (!spec.has_latency_ns()) fail(field + ".latency_ns", "nothing", "a latency in nanoseconds");
  if (!spec.has_gb_per_s())
    fail(field + ".gb_per_s", "nothing", "a bandwidth in GB/s per direction");
  kinds_.push_back(
      {emu::from_ns(spec.latency_ns()), emu::Rate::from_gb_per_s(spec.gb_per_s()), link_class});
  return static_cast<std::uint32_t>(kinds_.size() - 1);
}

void TopologyBuilder::add_cable(NodeId a, NodeId b, std::uint32_t kind, std::uint16_t plane) {
  cables_.push_back({a, b, kind, plane});
}

Topology TopologyBuilder::finish(std::uint32_t devices, std::uint32_t devices_per_node,
                                 std::uint32_t devices_per_package) {
  topology_.devices = devices;
  topology_.devices_per_node = devices_per_node;
  topology_.devices_per_package = devices_per_package;
  for (const Cable& cable : cables_) {
    if (cable.plane != kNoPlane)
      topology_.planes = std::max(topology_.planes, std::uint32_t{cable.plane} + 1);
  }
  std::vector<std::uint32_t>& first = topology_.first_link;
  first.assign(topology_.tier.size() + 1, 0);
  for (const Cable& cable : cables_) {
    ++first[cable.a + 1];
    ++first[cable.b + 1];
  }
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  topology_.links.resize(2 * cables_.size());
  for (const Cable& cable : cables_) {
    const Kind& kind = kinds_[cable.kind];
    topology_.links[next[cable.a]++] = {cable.a,   cable.b,         kind.latency,
                                        kind.rate, kind.link_class, cable.plane};
    topology_.links[next[cable.b]++] = {cable.b,   cable.a,         kind.latency,
                                        kind.rate, kind.link_class, cable.plane};
  }
  return std::move(topology_);
}

}  // namespace orrery::fabric
