// bfloat16 as its 16 bits: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace orrery::moe {

/// Exact.
inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Round to nearest, ties to even; beyond the largest finite value, infinity; NaN stays NaN
/// (quiet).
inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

}  // namespace orrery::moe
