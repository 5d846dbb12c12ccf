// int8 rows with one scale, the payload of a quantised dispatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::moe {

/// The element format of a dispatched row.
enum class Precision : std::uint8_t { kInt8, kBf16 };

/// Symmetric per-token quantisation as the CANN dispatch kernels do it: scale = amax / 127 and
/// q = x * (127 / amax) rounded to nearest even, all in fp32, q in [-127, 127]; returns the scale.
/// A row whose amax is too small to divide by (below about 4e-37; all zeros) becomes zeros with
/// scale 0; a row that holds an infinity or NaN becomes zeros with scale NaN, so that it cannot
/// pass for a good one.
float quantise_int8(std::span<const std::uint16_t> bf16, std::span<std::int8_t> q);

/// x[i] = q[i] * scale.
void dequantise_int8(std::span<const std::int8_t> q, float scale, std::span<float> x);

/// Payload bytes of a row of `hidden` elements, the fp32 scale of kInt8 not counted.
inline std::size_t row_bytes(Precision precision, std::size_t hidden) {
  return precision == Precision::kInt8 ? hidden : 2 * hidden;
}

}  // namespace orrery::moe
