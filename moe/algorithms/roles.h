// Several roles on one core, as the warps of a block have them: each does what it can, and the core
// waits when none can do anything.
#pragma once

#include <memory>
#include <vector>

#include "moe/algorithms/ring_queue.h"

namespace orrery::moe {

class Role {
 public:
  virtual ~Role() = default;
  virtual bool is_done() const = 0;
  /// Does what can be done without waiting for another core; says whether that was anything.
  virtual emu::Task step(devices::Core& core, bool& progress) = 0;
  /// Adds what would let it go on.
  virtual void add_watches(std::vector<Watch>& watches) const = 0;
};

/// Until all are done. Waits for at most 64 words at once (Core::wait_any).
emu::Task run_roles(devices::Core& core, const std::vector<std::unique_ptr<Role>>& roles);

}  // namespace orrery::moe
