// Suites of published measurements: loading and checking their text files.
#pragma once

#include <string>
#include <vector>

#include "moe/suite.pb.h"

namespace orrery::moe {

/// Reads a suite, puts its `common` fields under every row and every row's under its baseline, and
/// checks all of it: ranges, ids named once, a figure and a source wherever a row is compared, a
/// baseline where two runs are, another row of the same prediction for one that contradicts.
/// Throws ConfigError.
Suite load_suite(const std::string& path);

/// The row without what is said about it: two with equal predictions are predicted alike.
Row prediction_of(const Row& row);

/// The row at each of its cases, its baselines too; the row itself if it has none.
std::vector<Row> cases_of(const Row& row);

/// The published figure, in the unit of the row's metric; only for a row that has one.
double published(const Row& row);
bool has_published(const Row& row);

/// Reads what a file says to be assumed, and checks it. Throws ConfigError.
AssumedRanges load_ranges(const std::string& path);

}  // namespace orrery::moe
