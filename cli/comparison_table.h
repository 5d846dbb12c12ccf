// A Comparison for people.
#pragma once

#include <string>

#include "cli/compare.pb.h"

namespace orrery::cli {

std::string to_table(const Comparison& comparison);

/// "fabric.packet_bytes could not have: nothing was sent (counters)".
std::string to_line(const NoEffect& effect);

}  // namespace orrery::cli
