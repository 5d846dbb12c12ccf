// --check of a run as its result tells it.
#pragma once

#include <cstdint>

#include "devices/cluster.h"
#include "moe/result.pb.h"

namespace orrery::moe {

/// Collective, after the run: the same on every process. Throws ConfigError if the devices did more
/// than `most_accesses`, which were kept.
Check run_check(devices::Cluster& cluster, std::uint64_t most_accesses);

}  // namespace orrery::moe
