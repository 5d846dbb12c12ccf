// The arithmetic of combine: acc += w * row in fp32, then one rounding to bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "moe/bf16.h"

namespace orrery::moe {

/// acc[i] += weight * row[i]: product and sum rounded separately, so that any algorithm that adds
/// the same rows in the same order gets the same bits. Spans of equal size.
inline void accumulate(std::span<float> acc, std::span<const std::uint16_t> row, float weight) {
  for (std::size_t i = 0; i < acc.size(); ++i) acc[i] += weight * bf16_to_float(row[i]);
}

/// Round to nearest even. Spans of equal size.
inline void round_to_bf16(std::span<const float> from, std::span<std::uint16_t> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = float_to_bf16(from[i]);
}

}  // namespace orrery::moe
