// 64-bit digests of bytes and of sequences (R4). XXH3 for bytes; a running mix for event keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "emu/random.h"

namespace orrery::emu {

struct Digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Digest128&) const = default;
};
/// XXH3 with 128 bits: equal digests mean equal bytes, but for a chance of 2^-128.
Digest128 digest_bytes_128(std::span<const std::byte> bytes);

std::uint64_t digest_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// Order-dependent, one multiplication per word.
class RunningDigest {
 public:
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  }
  std::uint64_t value() const { return mix64(state_); }
  bool operator==(const RunningDigest&) const = default;

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3ULL;
};

/// 16 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t digest);

}  // namespace orrery::emu
