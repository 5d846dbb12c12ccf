// What tests of generators count and ask for.
#pragma once

#include <map>
#include <string>

#include "emu/errors.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {

inline std::string error_of(const std::string& text) {
  try {
    topology_of(text);
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "no error";
}

inline std::map<int, int> nodes_per_tier(const Topology& topology) {
  std::map<int, int> count;
  for (const std::uint8_t tier : topology.tier) ++count[tier];
  return count;
}

/// Links, that is two per cable.
inline std::map<std::string, int> links_per_class(const Topology& topology) {
  std::map<std::string, int> count;
  for (const Link& link : topology.links) ++count[topology.link_classes[link.link_class]];
  return count;
}

}  // namespace orrery::fabric
