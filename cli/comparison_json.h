// A Comparison for programs: proto field names, default values printed.
#pragma once

#include <string>

#include "cli/compare.pb.h"

namespace orrery::cli {

std::string to_json(const Comparison& comparison);

}  // namespace orrery::cli
