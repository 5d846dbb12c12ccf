// A checksum over the bytes of a row, as a receiver recomputes it to see whether they are all
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emu/digest.h"

namespace orrery::moe {

/// 64 bits over `bytes`, another function for every `round`.
inline std::uint64_t row_checksum(std::span<const std::byte> bytes, std::uint64_t round) {
  return emu::digest_bytes(bytes, round);
}

/// The n-th 64-bit word of a sequence that differs from round to round and never repeats within
/// one.
inline std::uint64_t whitening_word(std::uint32_t round, std::uint64_t n) {
  return emu::mix64((std::uint64_t{round} << 32) + n + 0x9e3779b97f4a7c15ULL);
}

}  // namespace orrery::moe
