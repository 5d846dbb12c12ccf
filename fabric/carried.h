// Which bytes of a row exist where rows are not carried (--payload control, design section 4): a
// few short ranges, of which a row's host buffer holds one after the other. The rest of a row has
// addresses, takes time and is nowhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::fabric {

class Carried {
 public:
  /// Bytes [begin, end) of a row. Ranges are in order and apart.
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  /// Everything.
  Carried() = default;
  /// Only these, as far as they lie in a row of `row_bytes`.
  Carried(const std::vector<Range>& ranges, std::uint64_t row_bytes) : everything_(false) {
    std::uint64_t total = 0;
    for (Range range : ranges) {
      if (range.end > row_bytes) range.end = static_cast<std::uint32_t>(row_bytes);
      if (range.begin >= range.end) continue;
      before_.push_back(total);
      total += range.end - range.begin;
      ranges_.push_back(range);
    }
  }

  bool everything() const { return everything_; }
  const std::vector<Range>& ranges() const { return ranges_; }

  /// Carried bytes before `offset`: where that one is in the row's buffer, if it is carried.
  std::uint64_t before(std::uint64_t offset) const {
    if (everything_) return offset;
    const auto next =
        std::partition_point(ranges_.begin(), ranges_.end(),
                             [offset](const Range& range) { return range.begin < offset; });
    if (next == ranges_.begin()) return 0;
    const Range& range = *(next - 1);
    const std::uint64_t within = std::min<std::uint64_t>(offset, range.end) - range.begin;
    return before_[static_cast<std::size_t>(next - ranges_.begin()) - 1] + within;
  }
  /// Carried bytes of [offset, offset + bytes).
  std::uint64_t count(std::uint64_t offset, std::uint64_t bytes) const {
    return before(offset + bytes) - before(offset);
  }

 private:
  bool everything_ = true;
  std::vector<Range> ranges_;
  std::vector<std::uint64_t> before_;  // bytes of the ranges before each
};

}  // namespace orrery::fabric
