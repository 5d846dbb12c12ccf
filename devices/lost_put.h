// A put that a device's program forgets: what tests lose to see that it is missed.
#pragma once

#include <cstdint>

namespace orrery::devices {

/// The `number`-th put of device `rank`, flags and atomics counted from 1, is never sent. 0: none.
struct LostPut {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;
};

}  // namespace orrery::devices
