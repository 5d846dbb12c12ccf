#include "moe/cheap_transform.h"

#include <bit>
#include <cstddef>

#include "emu/digest.h"
#include "emu/random.h"
#include "moe/bf16.h"

namespace orrery::moe {
namespace {

/// `x_at(i)`: element i of the row as a float.
template <typename ElementAt>
void transform(std::uint64_t key, std::span<std::uint16_t> out, ElementAt x_at) {
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t random = (static_cast<std::uint32_t>(i) + low) * 0x9e3779b9u;
    random = (random ^ (random >> 16) ^ high) * 0x7feb352du;
    random ^= random >> 15;
    // 23 bits make a mantissa: 0.5 to 1 with a random sign, and 1 to 2 less 1.5.
    const float gain = std::bit_cast<float>(0x3f000000u | (random & 0x807fffffu));
    const float offset = std::bit_cast<float>(0x3f800000u | (random >> 9)) - 1.5f;
    out[i] = float_to_bf16(x_at(i) * gain + offset);
  }
}

std::uint64_t key_of(std::uint64_t seed, std::uint32_t expert, std::uint64_t digest) {
  return emu::combine64(emu::combine64(seed, expert), digest);
}

}  // namespace

void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::int8_t> q,
                     float scale, std::span<std::uint16_t> out) {
  const std::uint64_t digest =
      emu::digest_bytes(std::as_bytes(q), std::bit_cast<std::uint32_t>(scale));
  transform(key_of(seed, expert, digest), out,
            [=](std::size_t i) { return static_cast<float>(q[i]) * scale; });
}

void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::uint16_t> row,
                     std::span<std::uint16_t> out) {
  const std::uint64_t digest = emu::digest_bytes(std::as_bytes(row));
  transform(key_of(seed, expert, digest), out,
            [=](std::size_t i) { return bf16_to_float(row[i]); });
}

}  // namespace orrery::moe
