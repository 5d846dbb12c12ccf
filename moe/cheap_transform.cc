#include "moe/cheap_transform.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "emu/digest.h"
#include "emu/random.h"
#include "moe/bf16.h"

namespace orrery::moe {
namespace {

constexpr std::size_t kTable = 1024;

/// Gains and offsets that depend on the key and on the position modulo kTable.
struct Coefficients {
  explicit Coefficients(std::uint64_t key) {
    const auto low = static_cast<std::uint32_t>(key);
    const auto high = static_cast<std::uint32_t>(key >> 32);
    for (std::uint32_t i = 0; i < kTable; ++i) {
      std::uint32_t random = (i + low) * 0x9e3779b9u;
      random = (random ^ (random >> 16) ^ high) * 0x7feb352du;
      random ^= random >> 15;
      // 23 bits make a mantissa: 0.5 to 1 with a random sign, and 1 to 2 less 1.5.
      gain[i] = std::bit_cast<float>(0x3f000000u | (random & 0x807fffffu));
      offset[i] = std::bit_cast<float>(0x3f800000u | (random >> 9)) - 1.5f;
    }
  }
  float gain[kTable];
  float offset[kTable];
};

// Round to nearest even of a float that is no NaN; without that case the loop below vectorises
// well.
std::uint16_t round_finite(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

/// `x_at(i)`: element i of the row as a float.
template <typename ElementAt>
void transform(std::uint64_t key, std::span<std::uint16_t> out, ElementAt x_at) {
  const Coefficients of(key);
  for (std::size_t first = 0; first < out.size(); first += kTable) {
    const std::size_t count = std::min(kTable, out.size() - first);
    std::uint16_t* to = out.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = round_finite(x_at(first + i) * of.gain[i] + of.offset[i]);
    }
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

void cheap_transform(std::uint64_t seed, std::uint32_t expert, std::span<const std::byte> payload,
                     float scale, std::span<const float> x, std::span<std::uint16_t> out) {
  const std::uint64_t digest = emu::digest_bytes(payload, std::bit_cast<std::uint32_t>(scale));
  transform(key_of(seed, expert, digest), out, [=](std::size_t i) { return x[i]; });
}

}  // namespace orrery::moe
