// Payloads of a quantised dispatch: int8 rows with one scale, and nvfp4 rows with a scale for every
// 16 elements and one for the row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace orrery::moe {

/// The element format of a dispatched row.
enum class Precision : std::uint8_t { kInt8, kBf16, kNvfp4 };

/// That of the name that algorithms' `quantise` options have for it: int8, nvfp4, and bf16 else.
inline Precision precision_named(const std::string& name) {
  if (name == "nvfp4") return Precision::kNvfp4;
  return name == "int8" ? Precision::kInt8 : Precision::kBf16;
}

/// Whether a row has an fp32 scale beside its payload.
inline bool has_scale(Precision precision) { return precision != Precision::kBf16; }

/// Symmetric per-token quantisation as the CANN dispatch kernels do it: scale = amax / 127 and
/// q = x * (127 / amax) rounded to nearest even, all in fp32, q in [-127, 127]; returns the scale.
/// A row whose amax is too small to divide by (below about 4e-37; all zeros) becomes zeros with
/// scale 0; a row that holds an infinity or NaN becomes zeros with scale NaN, so that it cannot
/// pass for a good one.
float quantise_int8(std::span<const std::uint16_t> bf16, std::span<std::int8_t> q);

/// x[i] = q[i] * scale.
void dequantise_int8(std::span<const std::int8_t> q, float scale, std::span<float> x);

/// Elements of an nvfp4 row that share an E4M3 scale.
inline constexpr std::size_t kNvfp4Block = 16;

/// nvfp4 as TensorRT-LLM quantises a row: returns scale = amax / (448 * 6). Each block of 16 has
/// the E4M3 scale s = (its amax / 6) / scale, and its elements are E2M1, x / (s * scale); all in
/// fp32 and rounded to nearest even, what is too large saturates, signs stay (of zeros, too).
/// `payload`, row_bytes() of them: elements, two to a byte, the first in its low half, then the
/// blocks' scales. Rows too small to scale (amax below about 3.2e-35) and rows that hold an
/// infinity or NaN become zeros as with quantise_int8.
float quantise_nvfp4(std::span<const std::uint16_t> bf16, std::span<std::byte> payload);

/// x[i] = element i * (its block's scale * scale).
void dequantise_nvfp4(std::span<const std::byte> payload, float scale, std::span<float> x);

/// Bits of the nearest E4M3 number to x >= 0 (ties to even, at most 448), and the number they mean.
std::uint8_t float_to_e4m3(float x);
float e4m3_to_float(std::uint8_t bits);
/// The same of E2M1, with sign: 0, 0.5, 1, 1.5, 2, 3, 4, 6; at most 6.
std::uint8_t float_to_e2m1(float x);
float e2m1_to_float(std::uint8_t bits);

/// Payload bytes of a row of `hidden` elements, its fp32 scale not counted.
inline std::size_t row_bytes(Precision precision, std::size_t hidden) {
  switch (precision) {
    case Precision::kInt8:
      return hidden;
    case Precision::kNvfp4:
      return (hidden + 1) / 2 + (hidden + kNvfp4Block - 1) / kNvfp4Block;
    case Precision::kBf16:
      break;
  }
  return 2 * hidden;
}

}  // namespace orrery::moe
