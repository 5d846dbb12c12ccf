#include "fabric/generators/generators.h"
#include "fabric/generators/grid.h"

namespace orrery::fabric {

Topology build_full_mesh(const FullMesh& mesh, const std::string& where) {
  TopologyBuilder builder(where, "fabric.full_mesh");
  const GridForm form{"mesh", [](std::uint32_t size) { return size - 1; },
                      [](std::uint32_t position, std::uint32_t size, const auto& cable) {
                        for (std::uint32_t other = position + 1; other < size; ++other)
                          cable(other);
                      }};
  return build_grid(builder, form, mesh.dimensions(), mesh.links());
}

}  // namespace orrery::fabric
