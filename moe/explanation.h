// What would shorten each operation most: estimated from the causes that a run kept, beside what a
// run without that cost gives.
#pragma once

#include "emu/process_group.h"
#include "moe/run.h"

namespace orrery::moe {

/// How many costs are tried per operation.
inline constexpr std::size_t kExplainedCosts = 3;

/// Collective. `outcome` is that of run(processes, config) with config.explain; fills
/// result.explanations, largest estimate first, after a run without each cost that is among the
/// first of some operation. Nothing where the run was too large to keep its causes, or an adversary
/// delayed packets, for which no cost can be blamed, or the run itself was not verified. False if
/// one of the runs without a cost was not verified.
bool explain(const emu::ProcessGroup& processes, const RunConfig& config, RunOutcome& outcome);

/// `config` without a cost; the rest, its settings for the result included, stays as it is.
RunConfig without(RunConfig config, devices::Cost cost);

}  // namespace orrery::moe
