// Stands in for the installed header of another release.
#pragma once

namespace orrery::moe {

constexpr char kAbi[] = "0.0.1-000000000000";

}  // namespace orrery::moe
