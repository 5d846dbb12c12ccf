// Consecutive kernels of an iteration on a device, measured as one.
#pragma once

#include <cstdint>

namespace orrery::devices {

/// From the start of kernel `first` to the end of kernel `last` on the same device; by the numbers
/// that DeviceProcess::kernel() was given.
struct KernelRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  static KernelRange only(std::uint32_t kernel) { return {kernel, kernel}; }
  bool contains(std::uint32_t kernel) const { return first <= kernel && kernel <= last; }
};

}  // namespace orrery::devices
