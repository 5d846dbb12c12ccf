// Stands in for an expert where real arithmetic would take too long: memory speed, yet any wrong
// byte shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::moe {

/// out[i] = x[i] * gain + offset, rounded to bf16, with gain in ±[0.5, 1) and offset in [-0.5, 0.5)
/// drawn from a hash of (seed, expert, i, digest of all bytes of the row, scale included). So a row
/// that went to the wrong expert, or has one byte torn or misplaced, changes nearly all of its
/// outputs. Finite rows give finite outputs below |x| + 0.5.
void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::int8_t> q,
                     float scale, std::span<std::uint16_t> out);
void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::uint16_t> row,
                     std::span<std::uint16_t> out);
/// The same of a row `x` that was encoded as `payload` with `scale`: these are what is hashed.
void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::byte> payload,
                     float scale, std::span<const float> x, std::span<std::uint16_t> out);

}  // namespace orrery::moe
