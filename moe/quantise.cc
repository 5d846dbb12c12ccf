#include "moe/quantise.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "moe/bf16.h"

namespace orrery::moe {
namespace {

// Adding 1.5 * 2^23 rounds a float of magnitude below 2^22 to the nearest even integer, left in the
// low mantissa bits: rounding that vectorises and needs no libm.
constexpr float kRounder = 12582912.0f;

/// The largest magnitude, as bf16 bits: magnitudes compare as integers.
std::uint16_t magnitude_max(std::span<const std::uint16_t> bf16) {
  std::uint16_t most = 0;
  for (const std::uint16_t bits : bf16) {
    most = std::max(most, static_cast<std::uint16_t>(bits & 0x7fffu));
  }
  return most;
}

}  // namespace

float quantise_int8(std::span<const std::uint16_t> bf16, std::span<std::int8_t> q) {
  const std::uint16_t magnitude = magnitude_max(bf16);
  const float amax = bf16_to_float(magnitude);
  const float inverse = 127.0f / amax;
  if (magnitude >= 0x7f80u || !(inverse <= std::numeric_limits<float>::max())) {
    std::ranges::fill(q, std::int8_t{0});
    return magnitude >= 0x7f80u ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  for (std::size_t i = 0; i < q.size(); ++i) {
    const float rounded = bf16_to_float(bf16[i]) * inverse + kRounder;
    q[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(rounded));
  }
  return amax / 127.0f;
}

void dequantise_int8(std::span<const std::int8_t> q, float scale, std::span<float> x) {
  for (std::size_t i = 0; i < q.size(); ++i) x[i] = static_cast<float>(q[i]) * scale;
}

}  // namespace orrery::moe
