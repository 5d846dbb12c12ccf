// Lays out a device's memory, region after region; every address of an algorithm comes from here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fabric/memory.h"

namespace orrery::moe {

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

class Layout {
 public:
  /// Small or densely used: flags, counts, lists.
  fabric::Address flat(std::uint64_t bytes) { return add({bytes, 0, false, {}}); }
  /// Large and written from end to end.
  fabric::Address dense(std::uint64_t bytes) { return add({bytes, 0, true, {}}); }
  /// Of all rows from here on only these bytes exist (--payload control).
  void carry_only(std::vector<fabric::Carried::Range> ranges) {
    carries_everything_ = false;
    ranges_ = std::move(ranges);
  }
  /// `count` rows of `row_bytes`, written and read one by one, each costing memory only while it is
  /// live. A row that is large by itself gains nothing from that and lies flat.
  fabric::Address rows(std::uint64_t count, std::uint64_t row_bytes) {
    constexpr std::uint64_t kLargeRow = 1 << 20;
    if (!carries_everything_) {
      return add({count * row_bytes, row_bytes, false, fabric::Carried(ranges_, row_bytes)});
    }
    if (row_bytes > kLargeRow) return dense(count * row_bytes);
    return add({count * row_bytes, row_bytes, false, {}});
  }
  const std::vector<fabric::Region>& regions() const { return regions_; }

 private:
  fabric::Address add(const fabric::Region& region) {
    regions_.push_back(region);
    return fabric::Region::base(regions_.size() - 1);
  }
  std::vector<fabric::Region> regions_;
  bool carries_everything_ = true;
  std::vector<fabric::Carried::Range> ranges_;
};

}  // namespace orrery::moe
