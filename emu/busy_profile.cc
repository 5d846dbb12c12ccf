#include "emu/busy_profile.h"

#include <algorithm>

namespace orrery::emu {

void BusyProfile::widen() {
  width_ *= 2;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (i % 2 == 0) {
      buckets_[i / 2] = buckets_[i];
    } else {
      buckets_[i / 2] += buckets_[i];
    }
  }
  buckets_.resize((buckets_.size() + 1) / 2);
}

void BusyProfile::add(Time start, Time end) {
  if (end <= start) return;
  while ((end - 1) / width_ >= static_cast<Time>(kMaxBuckets)) widen();
  const auto last = static_cast<std::size_t>((end - 1) / width_);
  if (buckets_.size() <= last) buckets_.resize(last + 1, 0);
  for (auto i = static_cast<std::size_t>(start / width_); i <= last; ++i) {
    const Time begin = static_cast<Time>(i) * width_;
    buckets_[i] += std::min(end, begin + width_) - std::max(start, begin);
  }
}

void BusyProfile::add(const BusyProfile& other) {
  BusyProfile theirs = other;
  while (width_ < theirs.width_) widen();
  while (theirs.width_ < width_) theirs.widen();
  if (buckets_.size() < theirs.buckets_.size()) buckets_.resize(theirs.buckets_.size(), 0);
  for (std::size_t i = 0; i < theirs.buckets_.size(); ++i) buckets_[i] += theirs.buckets_[i];
}

}  // namespace orrery::emu
