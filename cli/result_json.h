// A Result as JSON: proto field names in the schema's order, default values printed, counters as
// numbers.
#pragma once

#include <string>

#include "moe/result.pb.h"

namespace orrery::cli {

std::string to_json(const moe::Result& result);

}  // namespace orrery::cli
