// What the shipped files and algorithms say by themselves: the values that no --set changed.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "devices/machine.h"
#include "moe/algorithm.h"
#include "moe/result.pb.h"
#include "moe/workload.h"

namespace orrery::cli {

using Settings = std::map<std::string, std::string>;
Settings settings_of(const moe::Result& result);

/// The topology or workload of this name with `settings` on top; nothing if it is not shipped or
/// the settings do not fit it.
std::optional<devices::Machine> shipped_machine(const std::string& name, const Settings& settings);
std::optional<moe::Workload> shipped_workload(const std::string& name, const Settings& settings);

/// Null for an algorithm of a plug-in.
const moe::AlgorithmEntry* registered_algorithm(const std::string& name);

/// The value of `input`, as "not set (500)" where the run had no such setting and its topology,
/// workload or algorithm, if shipped, says 500.
std::string value_or_shipped(const moe::Result& result, const std::string& input);

/// True if both runs got the same from `input`, though they differ in how it was set.
bool is_same_value(const std::string& input, const moe::Result& first, const moe::Result& other);

}  // namespace orrery::cli
