// What a result says about the run that made it: the inputs, by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "moe/result.pb.h"

namespace orrery::cli {

inline constexpr char kNotSet[] = "not set";

/// Every input in the order of the schema (topology, workload, algorithm, …), then the settings by
/// name. Whatever is added to Result counts as an input unless it is one of its outcomes.
std::vector<std::pair<std::string, std::string>> inputs_of(const moe::Result& result);

/// The value of one input; kNotSet for a setting that the run did not have.
std::string input_of(const moe::Result& result, const std::string& name);

/// Names of the inputs that are not the same in all `results`. Tokens that workload.tokens set
/// differently count once, as that setting.
std::vector<std::string> differing_inputs(const std::vector<const moe::Result*>& results);

/// What may be concluded from a comparison of runs that differ in these inputs; `same`: with equal
/// digests and latencies.
std::string conclusion(const std::vector<std::string>& differing, bool same);

}  // namespace orrery::cli
