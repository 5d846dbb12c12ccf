// A Result for people.
#pragma once

#include <string>

#include "moe/result.pb.h"

namespace orrery::cli {

std::string to_table(const moe::Result& result);
/// What --check found, or that it found nothing; with a line end.
std::string check_text(const moe::Check& check);

}  // namespace orrery::cli
