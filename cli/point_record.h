// A finished point of a sweep as a line of points.jsonl.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/sweep.pb.h"

namespace orrery::cli {

/// The line, its end included. Equal records are equal bytes.
std::string to_line(const PointRecord& record);

/// A line as JSON, checked for what every line has: key, outcome and error are texts, varied is a
/// list. Throws ConfigError naming `where` (file and line).
nlohmann::json parse_line(const std::string& line, const std::string& where);

}  // namespace orrery::cli
