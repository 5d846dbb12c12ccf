#include "moe/pattern.h"

#include <algorithm>
#include <cstring>

#include "emu/random.h"

namespace orrery::moe {

namespace {
std::uint64_t key_of(std::uint64_t seed, std::uint32_t iteration, std::uint32_t source,
                     std::uint32_t destination) {
  return emu::combine64(emu::combine64(seed, iteration),
                        (static_cast<std::uint64_t>(source) << 32) | destination);
}

// 32-bit words, so that compilers vectorise it: a multiplicative hash of the index under the key.
std::uint32_t word_at(std::uint32_t low, std::uint32_t high, std::uint32_t index) {
  std::uint32_t x = (index + low) * 0x9e3779b1u;
  x ^= (x >> 15) ^ high;
  return x * 0x85ebca77u;
}
}  // namespace

void fill_pattern(std::uint64_t seed, std::uint32_t iteration, std::uint32_t source,
                  std::uint32_t destination, std::span<std::byte> bytes) {
  const std::uint64_t key = key_of(seed, iteration, source, destination);
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t index = 0;
  std::byte* out = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t words[64];
  while (left > 0) {
    for (std::uint32_t i = 0; i < 64; ++i) words[i] = word_at(low, high, index + i);
    index += 64;
    const std::size_t step = std::min(left, sizeof(words));
    std::memcpy(out, words, step);
    out += step;
    left -= step;
  }
}

bool matches_pattern(std::uint64_t seed, std::uint32_t iteration, std::uint32_t source,
                     std::uint32_t destination, std::span<const std::byte> bytes,
                     std::vector<std::byte>& scratch) {
  scratch.resize(bytes.size());
  fill_pattern(seed, iteration, source, destination, scratch);
  return bytes.empty() || std::memcmp(scratch.data(), bytes.data(), bytes.size()) == 0;
}

}  // namespace orrery::moe
