// The sweeps of a Comparison for people.
#pragma once

#include <string>

#include "cli/compare.pb.h"

namespace orrery::cli {

/// All that follows the list of what is compared.
std::string sweep_table(const Comparison& comparison);

}  // namespace orrery::cli
