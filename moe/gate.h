// The gate: makes the routing of an iteration from a workload, with integers alone (R7).
#pragma once

#include <cstdint>

#include "moe/routing_table.h"
#include "moe/trace.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

/// The routing of `iteration` on `devices` devices. A token's experts are drawn one after another
/// without replacement in proportion to expert_popularity() (independently under
/// gate.allow_duplicates); with expert_groups, top_groups groups first, in proportion to their
/// sums. A trace's tokens are dealt to the devices in order and continue where the previous
/// iteration stopped; a trace with too few tokens starts over (Trace::repeats tells). Weights of a
/// token descend and sum to 1 before masking.
///
/// A pure function: each token has its own random numbers, by (seed, device, iteration, token), so
/// calls may come in any order and one device's token count changes nothing elsewhere. `trace` is
/// needed for Gate::TRACE and ignored otherwise. Throws ConfigError for a workload that does not
/// fit.
RoutingTable route(const Workload& workload, std::uint32_t devices, std::uint64_t seed,
                   std::uint32_t iteration, const Trace* trace = nullptr);

}  // namespace orrery::moe
