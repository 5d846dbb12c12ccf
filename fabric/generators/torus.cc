#include <algorithm>

#include "fabric/generators/generators.h"
#include "fabric/generators/grid.h"

namespace orrery::fabric {

Topology build_torus(const Torus& torus, const std::string& where) {
  TopologyBuilder builder(where, "fabric.torus");
  // To the next device, and from the last one to the first: where there are two, that is one cable.
  const GridForm form{"torus", [](std::uint32_t size) { return std::min(size - 1, 2u); },
                      [](std::uint32_t position, std::uint32_t size, const auto& cable) {
                        if (position + 1 < size) {
                          cable(position + 1);
                        } else if (size > 2) {
                          cable(0);
                        }
                      }};
  return build_grid(builder, form, torus.dimensions(), torus.links());
}

}  // namespace orrery::fabric
