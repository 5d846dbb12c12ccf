// Assigns offsets in a device's memory, one region after the other.
#pragma once

#include <cstdint>

#include "fabric/packet.h"

namespace orrery::moe {

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Regions begin at multiples of `alignment`; huge-page alignment keeps one region's advice from another.
class Layout {
 public:
  static constexpr std::uint64_t kHugePage = 2 << 20;

  fabric::Address region(std::uint64_t bytes, std::uint64_t alignment = 4096) {
    const fabric::Address address = align_up(end_, alignment);
    end_ = address + bytes;
    return address;
  }
  std::uint64_t bytes() const { return end_; }

 private:
  std::uint64_t end_ = 0;
};

}  // namespace orrery::moe
