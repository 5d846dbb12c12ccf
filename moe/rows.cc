#include "moe/rows.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "emu/random.h"

namespace orrery::moe {
namespace {

// Two elements a word, the first in the lower half.
constexpr std::array<std::uint32_t, 5> kSpecialWords = {
    0x00000000u, 0x3f800000u, 0x80008000u, 0x3f803f80u, 0xbf803f80u,
};

/// Two finite elements: sign and mantissa at random, exponent of 2^-3 … 2^1 (0 to 3 from two bits,
/// plus one from a third; no carry reaches the sign).
std::uint32_t random_word(std::uint32_t index, std::uint32_t key_low, std::uint32_t key_high) {
  std::uint32_t x = (index + key_low) * 0x9e3779b9u;
  x = (x ^ (x >> 16) ^ key_high) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return (x & 0x81ff81ffu) + 0x3e003e00u + ((x >> 2) & 0x00800080u);
}

template <typename WordAt>
void fill(std::span<std::uint16_t> row, WordAt word_at) {
  const std::size_t words = row.size() / 2;
  // Halves are stored as elements: no byte order, and the compiler interleaves them in vectors.
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint32_t word = word_at(static_cast<std::uint32_t>(i));
    row[2 * i] = static_cast<std::uint16_t>(word);
    row[2 * i + 1] = static_cast<std::uint16_t>(word >> 16);
  }
  if (row.size() % 2 != 0) {
    row.back() = static_cast<std::uint16_t>(word_at(static_cast<std::uint32_t>(words)));
  }
}

}  // namespace

void input_row(std::uint64_t seed, std::uint32_t iteration, std::uint32_t device,
               std::uint32_t token, std::span<std::uint16_t> row) {
  const emu::RandomStream stream(emu::combine64(seed, iteration), device, "rows.input");
  const std::uint64_t key = stream.at(token);
  const std::uint64_t kind = emu::mix64(key);
  if (kind % 64 == 0) {
    const std::uint32_t word = kSpecialWords[kind / 64 % kSpecialWords.size()];
    fill(row, [word](std::uint32_t) { return word; });
    return;
  }
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  fill(row, [low, high](std::uint32_t i) { return random_word(i, low, high); });
}

}  // namespace orrery::moe
