// A Result as JSON: proto field names in the schema's order, default values printed, counters as
// numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "moe/result.pb.h"

namespace orrery::cli {

nlohmann::ordered_json to_json_object(const moe::Result& result);
std::string to_json(const moe::Result& result);

}  // namespace orrery::cli
