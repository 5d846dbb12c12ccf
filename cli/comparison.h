// Two or more results held against each other: what differs in the inputs, what came of it.
#pragma once

#include <string>
#include <vector>

#include "cli/compare.pb.h"
#include "cli/result_file.h"

namespace orrery::cli {

/// Compares results, or sweeps, or looks into a single sweep: each varied key with the others held
/// fixed. Throws ConfigError for a single result, and for results and sweeps together.
Comparison compare(const std::vector<ResultFile>& files);

/// One result against another. Latencies and their parts are compared in whole picoseconds: the
/// changes of the parts sum to the change of the maximum exactly (a remainder of a result whose
/// own parts do not sum up is a part of its own).
ResultPair compare_pair(const std::string& first_label, const moe::Result& first,
                        const std::string& other_label, const moe::Result& other);

/// True if no statistic of any operation differs.
bool same_latencies(const moe::Result& first, const moe::Result& other);

}  // namespace orrery::cli
