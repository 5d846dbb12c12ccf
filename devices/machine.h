// A machine: a topology file with its overrides applied and checked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "devices/machine.pb.h"

namespace orrery::devices {

/// `--set` pairs: dotted path and value.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// Loads the machine at `path`, applies those overrides that begin with "fabric." or "device.",
/// checks every range and what ranges cannot say (a packet holds whole atomic blocks). Throws
/// ConfigError.
Machine load_machine(const std::string& path, const Overrides& overrides);

/// The checks alone, for machines made in memory; `where` stands for the file in errors.
void check_machine(const Machine& machine, const std::string& where);

}  // namespace orrery::devices
