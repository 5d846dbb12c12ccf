// What stands for a row whose bytes are not carried (--payload control): a hash that follows the
// row from its token through an expert into the sum, so that a wrong row is still a wrong result.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "emu/random.h"

namespace orrery::moe {

using RowIdentity = std::uint64_t;
/// Bytes at the beginning of a row that hold it; of a shorter row as many as there are.
inline constexpr std::uint32_t kIdentityBytes = sizeof(RowIdentity);

inline RowIdentity input_identity(std::uint64_t seed, std::uint32_t iteration, std::uint32_t device,
                                  std::uint32_t token) {
  return emu::combine64(emu::combine64(seed, iteration), emu::combine64(device, token));
}
/// Of an expert's output.
inline RowIdentity output_identity(RowIdentity input, std::uint32_t expert) {
  return emu::combine64(input, expert);
}
/// Of a weighted sum, one row after the other; 0 before the first.
inline RowIdentity add_identity(RowIdentity sum, RowIdentity row, float weight) {
  return emu::combine64(emu::combine64(sum, row), std::bit_cast<std::uint32_t>(weight));
}

inline void put_identity(std::span<std::byte> row, RowIdentity identity) {
  std::memcpy(row.data(), &identity, std::min<std::size_t>(row.size(), sizeof(identity)));
}
inline RowIdentity identity_in(std::span<const std::byte> row) {
  RowIdentity identity = 0;
  std::memcpy(&identity, row.data(), std::min<std::size_t>(row.size(), sizeof(identity)));
  return identity;
}
/// As much of it as a row of `bytes` can hold.
inline RowIdentity truncated(RowIdentity identity, std::uint64_t bytes) {
  return bytes >= sizeof(identity) ? identity : identity & ((RowIdentity{1} << (8 * bytes)) - 1);
}

}  // namespace orrery::moe
