// --check over a whole run: what all devices logged, replayed by the happens-before checker.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/cluster.h"
#include "devices/order_finding.h"

namespace orrery::devices {

struct OrderCheck {
  /// False where a device did more than was kept: then nothing was checked.
  bool complete = false;
  std::uint64_t accesses = 0;  // records of all devices
  std::vector<Finding> findings;
};

/// Collective: of a cluster made with `check_records`; on process 0 alone, elsewhere empty. The
/// same for any number of processes and threads.
OrderCheck check_order(Cluster& cluster);

}  // namespace orrery::devices
