// An input differs and nothing changed: could it have? One table of rules, each with what the
// results themselves show (counters, core times, settings).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/compare.pb.h"
#include "moe/result.pb.h"

namespace orrery::cli {

/// What can be said about `input`, in which two results differ that have the same latencies.
/// COULD_NOT only where the results, or the shipped files they name, show that the run never read
/// it or got the same value from both.
NoEffect explain_no_effect(const std::string& input, const moe::Result& first,
                           const moe::Result& other);

/// The one verdict for several pairs that differ in the same input: COULD_NOT only if it holds for
/// all; else that of the first that says otherwise.
using ResultPointers = std::pair<const moe::Result*, const moe::Result*>;
NoEffect explain_no_effect(const std::string& input, const std::vector<ResultPointers>& pairs);

}  // namespace orrery::cli
