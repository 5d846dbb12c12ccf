// Random streams that belong to (seed, device, purpose), never to processes (R7). Counter based:
// the n-th number of a stream is a pure function, so a verifier regenerates any of them in any
// order. Integers only; no std:: distributions, no libm.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::emu {

/// A bijective mix of 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}
constexpr std::uint64_t combine64(std::uint64_t a, std::uint64_t b) {
  return mix64(a + 0x9e3779b97f4a7c15ULL + mix64(b + 0x632be59bd9b4e019ULL));
}
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t device, std::string_view purpose)
      : key_(combine64(combine64(seed, device), hash_name(purpose))) {}

  /// The n-th number of the stream.
  std::uint64_t at(std::uint64_t n) const { return mix64(key_ + (n + 1) * 0x9e3779b97f4a7c15ULL); }
  std::uint64_t next() { return at(counter_++); }
  /// Uniform in [0, bound), bound > 0, by multiplication (bias below bound / 2^64).
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace orrery::emu
