// Sweeps held against each other point by point, and one sweep by each of its varied keys.
#pragma once

#include <string>

#include "cli/compare.pb.h"
#include "cli/result_file.h"

namespace orrery::cli {

/// Ratios of every operation's maximum at the points that both have, matched by what was varied;
/// points that are not ok in both are named and left out.
SweepPair compare_sweeps(const std::string& first_label, const ResultFile& first,
                         const std::string& other_label, const ResultFile& other);

/// Fills fixed_inputs and effects: for every varied key the ratios of every operation's maximum
/// against its first value, over the pairs of points that differ in this key alone.
void look_into(const ResultFile& sweep, Comparison& comparison);

}  // namespace orrery::cli
