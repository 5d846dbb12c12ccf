#include "emu/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace orrery::emu {

std::uint64_t digest_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Digest128 digest_bytes_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string to_hex(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

}  // namespace orrery::emu
