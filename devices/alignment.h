// Which kernels begin everywhere at once.
#pragma once

#include <cstdint>

namespace orrery::devices {

/// As benchmarks have it with a barrier before what they time: none of them, the first of each
/// iteration, or each. Such a kernel begins when all kernels before it have ended everywhere and
/// nothing is under way any more.
enum class Alignment : std::uint8_t { kNone, kIterations, kOperations };

}  // namespace orrery::devices
