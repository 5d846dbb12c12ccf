// Even contiguous shares of a list over cores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orrery::moe {

struct Share {
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t size() const { return end - begin; }
};

/// The `index`-th of `parts` shares of `total` things; the first total % parts shares have one
/// more.
inline Share share(std::uint32_t total, std::uint32_t parts, std::uint32_t index) {
  const std::uint32_t base = total / parts;
  const std::uint32_t extra = total % parts;
  const std::uint32_t begin = index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

/// The share that holds thing `item`.
inline std::uint32_t share_of(std::uint32_t total, std::uint32_t parts, std::uint32_t item) {
  const std::uint32_t base = total / parts;
  const std::uint32_t extra = total % parts;
  const std::uint32_t large = extra * (base + 1);
  return item < large ? item / (base + 1) : extra + (item - large) / std::max(base, 1u);
}

}  // namespace orrery::moe
