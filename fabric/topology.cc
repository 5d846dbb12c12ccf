#include "fabric/topology.h"

#include "emu/errors.h"
#include "emu/text_config.h"
#include "fabric/failures.h"
#include "fabric/generators/generators.h"

namespace orrery::fabric {

namespace {

Topology generate(const Fabric& fabric, const std::string& where) {
  switch (fabric.generator_case()) {
    case Fabric::kClos:
      return build_clos(fabric.clos(), where);
    case Fabric::kFullMesh:
      return build_full_mesh(fabric.full_mesh(), where);
    case Fabric::kTorus:
      return build_torus(fabric.torus(), where);
    case Fabric::kStar:
      return build_star(fabric.star(), where);
    case Fabric::kExplicitGraph:
      return build_explicit(fabric.explicit_graph(), where);
    case Fabric::kScaleOut:
      return build_scale_out(fabric.scale_out(), where);
    case Fabric::kDragonfly:
      return build_dragonfly(fabric.dragonfly(), where);
    case Fabric::GENERATOR_NOT_SET:
      break;
  }
  throw emu::ConfigError(
      where, "fabric", "no generator",
      "one of clos, full_mesh, torus, star, explicit_graph, scale_out, dragonfly");
}

}  // namespace

Topology build_topology(const Fabric& fabric, const std::string& where) {
  emu::check_ranges(fabric, where);
  Topology topology = generate(fabric, where);
  remove_failed(topology, fabric, where);
  return topology;
}

}  // namespace orrery::fabric
