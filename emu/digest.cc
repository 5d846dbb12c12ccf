#include "emu/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace orrery::emu {

std::uint64_t digest_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string to_hex(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

}  // namespace orrery::emu
