// A sweep's results for people (a table) and for spreadsheets (CSV).
#pragma once

#include <string>
#include <vector>

#include "cli/sweep_results.h"

namespace orrery::cli {

/// The varied keys against the metrics, in the order of the plan.
std::string to_table(const SweepPlan& plan, const SweepResults& results);

/// Smallest, median and largest of each metric over the seeds, for each combination of the other
/// keys; empty unless the plan is a product over several seeds.
std::string seed_spread(const SweepPlan& plan, const SweepResults& results);

/// A line for each key that changed nothing in some of the comparisons of two points that differ in
/// it alone (in neighbouring values of it); empty if each changed something everywhere.
std::string unchanged_keys(const SweepPlan& plan, const SweepResults& results);

/// "8 points: 7 ok, 1 error", then a line for each that is not ok.
std::string summary(const SweepPlan& plan, const SweepResults& results);

/// The varied keys, outcome, metrics, error; a header and a line per finished point.
std::string to_csv(const SweepPlan& plan, const SweepResults& results);

}  // namespace orrery::cli
