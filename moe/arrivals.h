// A routing table seen from the experts: which rows each one gets, in order of (source, token, k).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/routing_table.h"

namespace orrery::moe {

/// Where a row comes from; also the tag that travels with it.
struct RowTag {
  std::uint32_t source;
  std::uint32_t token;
  std::uint32_t k;
  auto operator<=>(const RowTag&) const = default;
};

class Arrivals {
 public:
  explicit Arrivals(const RoutingTable& table) : first_(table.experts() + 1, 0) {
    const std::vector<std::uint64_t> counts = table.counts();
    for (std::uint32_t expert = 0; expert < table.experts(); ++expert) {
      first_[expert + 1] = first_[expert] + counts[expert];
    }
    rows_.resize(first_.back());
    std::vector<std::uint64_t> next(first_.begin(), first_.end() - 1);
    for (std::uint32_t device = 0; device < table.devices(); ++device) {
      table.for_each_entry(device,
                           [&](std::uint32_t token, std::uint32_t k, std::uint32_t expert, float) {
                             rows_[next[expert]++] = {device, token, k};
                           });
    }
  }

  std::span<const RowTag> rows(std::uint32_t expert) const {
    return {rows_.data() + first_[expert],
            static_cast<std::size_t>(first_[expert + 1] - first_[expert])};
  }
  /// Rows of experts [first, last).
  std::uint64_t count(std::uint32_t first, std::uint32_t last) const {
    return first_[last] - first_[first];
  }

 private:
  std::vector<std::uint64_t> first_;
  std::vector<RowTag> rows_;
};

}  // namespace orrery::moe
