// Some of a kernel's cores, which do one thing while the others do another: what a kernel gives to
// communication it takes from its products.
#pragma once

#include <cstdint>

#include "devices/core.h"

namespace orrery::moe {

/// Cores [first, first + count) of a kernel.
struct CoreTeam {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  static CoreTeam all(const devices::Core& core) { return {0, core.count()}; }
  bool has(const devices::Core& core) const {
    return core.index() >= first && core.index() < first + count;
  }
  /// Of a core that it has.
  std::uint32_t index(const devices::Core& core) const { return core.index() - first; }
};

}  // namespace orrery::moe
