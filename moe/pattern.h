// Bytes of the micro-benchmarks: a pure function of (seed, iteration, source, destination).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery::moe {

void fill_pattern(std::uint64_t seed, std::uint32_t iteration, std::uint32_t source,
                  std::uint32_t destination, std::span<std::byte> bytes);

/// True if `bytes` are what fill_pattern() writes. `scratch` keeps its memory between calls.
bool matches_pattern(std::uint64_t seed, std::uint32_t iteration, std::uint32_t source,
                     std::uint32_t destination, std::span<const std::byte> bytes,
                     std::vector<std::byte>& scratch);

}  // namespace orrery::moe
