// What an algorithm relies on against what the fabric of a run gives: a word of warning, never an
// error.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.pb.h"
#include "moe/algorithm.h"

namespace orrery::moe {

/// A plain line for each part of `contract` that `fabric` does not give, and what to expect then;
/// none if it gives all.
std::vector<std::string> contract_notes(const std::string& algorithm, const Contract& contract,
                                        const fabric::Fabric& fabric);

}  // namespace orrery::moe
