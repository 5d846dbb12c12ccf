// Why an operation took as long as it did, in words, and what would have made it shorter.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fabric/topology.h"
#include "moe/run.h"

namespace orrery::cli {

/// Lines per operation at most; shorter steps are then left out, and it says so.
inline constexpr std::size_t kPathLines = 25;

/// On process 0: the critical path of every operation of `outcome`, hop by hop, each followed by
/// the costs that moe::explain() found.
std::string to_explanation(const moe::RunOutcome& outcome, const fabric::Topology& topology,
                           const moe::RunConfig& config);

}  // namespace orrery::cli
