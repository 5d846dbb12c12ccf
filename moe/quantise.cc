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

std::uint8_t float_to_e4m3(float x) {
  constexpr std::uint32_t kMost = 0x7e;  // 448; 0x7f is NaN
  if (x < 0x1p-6f) {                     // a multiple of 2^-9
    return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x * 512.0f + kRounder));
  }
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20;
  return static_cast<std::uint8_t>(std::min(rounded - ((127u - 7u) << 3), kMost));
}

float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7fu;
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : std::bit_cast<float>((magnitude + ((127u - 7u) << 3)) << 20);
  return (bits & 0x80u) != 0 ? -value : value;
}

// Where two neighbours are equally far the one with the even code is taken.
std::uint8_t float_to_e2m1(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float v = std::bit_cast<float>(bits & 0x7fffffffu);
  const int code = (v > 0.25f) + (v >= 0.75f) + (v > 1.25f) + (v >= 1.75f) + (v > 2.5f) +
                   (v >= 3.5f) + (v > 5.0f);
  return static_cast<std::uint8_t>((bits >> 28 & 8u) | static_cast<unsigned>(code));
}

float e2m1_to_float(std::uint8_t bits) {
  constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                 -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return kValues[bits & 15u];
}

float quantise_nvfp4(std::span<const std::uint16_t> bf16, std::span<std::byte> payload) {
  constexpr float kMostE2m1 = 6.0f;
  constexpr float kMostE4m3 = 448.0f;
  std::ranges::fill(payload, std::byte{0});
  const std::uint16_t magnitude = magnitude_max(bf16);
  if (magnitude >= 0x7f80u) return std::numeric_limits<float>::quiet_NaN();
  const float scale = bf16_to_float(magnitude) / (kMostE4m3 * kMostE2m1);
  if (!(scale >= std::numeric_limits<float>::min())) return 0.0f;
  const std::span<std::byte> scales = payload.subspan((bf16.size() + 1) / 2);
  for (std::size_t first = 0; first < bf16.size(); first += kNvfp4Block) {
    const auto block = bf16.subspan(first, std::min(kNvfp4Block, bf16.size() - first));
    const float most = bf16_to_float(magnitude_max(block));
    const std::uint8_t of_block = float_to_e4m3(most / kMostE2m1 / scale);
    scales[first / kNvfp4Block] = std::byte{of_block};
    const float unit = e4m3_to_float(of_block) * scale;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float x = bf16_to_float(block[i]);
      const std::uint8_t code = float_to_e2m1(unit > 0 ? x / unit : x * 0.0f);
      payload[(first + i) / 2] |= std::byte{code} << (4 * ((first + i) % 2));
    }
  }
  return scale;
}

void dequantise_nvfp4(std::span<const std::byte> payload, float scale, std::span<float> x) {
  const std::span<const std::byte> scales = payload.subspan((x.size() + 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto code = std::to_integer<std::uint8_t>(payload[i / 2] >> (4 * (i % 2)));
    const auto of_block = std::to_integer<std::uint8_t>(scales[i / kNvfp4Block]);
    x[i] = e2m1_to_float(code) * (e4m3_to_float(of_block) * scale);
  }
}

}  // namespace orrery::moe
