// Collects nodes and cables for a generator and assembles the Topology. Every generator uses it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/topology.h"

namespace orrery::fabric {

inline constexpr std::uint64_t kMaxNodes = 1u << 20;
inline constexpr std::uint64_t kMaxLinks = 1u << 26;  // directed; two per cable

/// Usage: expect() before the first node, then nodes in their order (devices first), cables,
/// finish().
class TopologyBuilder {
 public:
  /// `where` is the file in errors, `generator` the field they name, e.g. "fabric.clos".
  TopologyBuilder(const std::string& where, const std::string& generator)
      : where_(where), generator_(generator) {}

  /// Throws ConfigError for a size beyond the limits, before anything is allocated for it.
  /// Saturated counts
  /// (~0) are welcome.
  void expect(std::uint64_t nodes, std::uint64_t cables);

  NodeId add_node(std::uint8_t tier, std::string name);

  /// The number of a link class, new or known. Throws ConfigError beyond Topology::kMaxLinkClasses.
  std::uint8_t link_class(const std::string& name);

  /// A kind of cable; throws ConfigError if `spec` lacks its latency or bandwidth. `field` is
  /// relative to the generator, e.g. "uplink".
  std::uint32_t cable_kind(const LinkSpec& spec, const std::string& field, std::uint8_t link_class);

  /// Both directions of a cable between `a` and `b`. A node's links keep the order of these calls,
  /// which is the order in which routing numbers its choices.
  void add_cable(NodeId a, NodeId b, std::uint32_t kind, std::uint16_t plane = kNoPlane);

  Topology finish(std::uint32_t devices, std::uint32_t devices_per_node,
                  std::uint32_t devices_per_package);

  /// Throws ConfigError for `field` of the generator.
  [[noreturn]] void fail(const std::string& field, const std::string& value,
                         const std::string& expectation) const;

 private:
  struct Kind {
    emu::Time latency;
    emu::Rate rate;
    std::uint8_t link_class;
  };
  struct Cable {
    NodeId a;
    NodeId b;
    std::uint32_t kind;
    std::uint16_t plane;
  };

  const std::string where_;
  const std::string generator_;
  Topology topology_;
  std::vector<Kind> kinds_;
  std::vector<Cable> cables_;
};

/// a * b, or ~0 if that does not fit.
constexpr std::uint64_t saturated_product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;
}

}  // namespace orrery::fabric
