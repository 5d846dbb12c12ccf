// How busy something was over time, in a bounded number of buckets: their width doubles when the
// time recorded outgrows them. Sums are whole picoseconds, so that the profile of a run does not
// depend on the order in which it was put together.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/time.h"

namespace orrery::emu {

class BusyProfile {
 public:
  static constexpr std::size_t kMaxBuckets = 512;
  static constexpr Time kFirstWidth = kNanosecond;

  /// Busy in [start, end), 0 ≤ start; times count from the profile's origin.
  void add(Time start, Time end);
  /// Adds another one with the same origin.
  void add(const BusyProfile& other);

  Time width() const { return width_; }
  /// Bucket i: picoseconds busy within [i · width, (i+1) · width); above width if several things
  /// were busy at once.
  const std::vector<Time>& buckets() const { return buckets_; }
  void restore(Time width, std::vector<Time> buckets) {
    width_ = width;
    buckets_ = std::move(buckets);
  }

 private:
  void widen();

  Time width_ = kFirstWidth;
  std::vector<Time> buckets_;
};

}  // namespace orrery::emu
