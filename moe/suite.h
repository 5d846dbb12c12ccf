// Suites of published measurements: loading and checking their text files.
#pragma once

#include <string>

#include "moe/suite.pb.h"

namespace orrery::moe {

/// Reads a suite, puts its `common` fields under every row and checks all of it: ranges, ids named
/// once, a figure and a source wherever a row is compared. Throws ConfigError.
Suite load_suite(const std::string& path);

}  // namespace orrery::moe
