// Does a run fit into the hosts' memory? Asked before it takes any (design section 11).
#pragma once

#include "emu/process_group.h"
#include "moe/algorithm.h"
#include "moe/run.h"

namespace orrery::moe {

/// What is known from the counts of tokens alone: routing tables of all iterations, which every
/// process holds, and at least the tokens' rows once. Call it before making tables. Collective;
/// throws ConfigError on all processes or on none.
void check_tables_fit(const emu::ProcessGroup& processes, const RunConfig& config,
                      const AlgorithmEntry& entry);

/// What the devices will touch, and the address space that their layouts need. Collective, as
/// above.
void check_devices_fit(const emu::ProcessGroup& processes, const RunConfig& config,
                       const Algorithm& algorithm);

}  // namespace orrery::moe
