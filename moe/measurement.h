// Latencies, breakdowns, counters: from the records of all devices to a Result (design section 9).
#pragma once

#include <cstdint>
#include <vector>

#include "devices/cluster.h"
#include "moe/algorithm.h"
#include "moe/result.pb.h"

namespace orrery::moe {

/// Collective: fills operations, counters, busiest_links, virtual_time_us, digest.
void measure(devices::Cluster& cluster, const Algorithm& algorithm, std::uint32_t iterations, Result& result);

}  // namespace orrery::moe
