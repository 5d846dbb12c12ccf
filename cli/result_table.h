// A Result for people.
#pragma once

#include <string>

#include "moe/result.pb.h"

namespace orrery::cli {

std::string to_table(const moe::Result& result);

}  // namespace orrery::cli
