// How far a sweep is, on a terminal: one line that is written over.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace orrery::cli {

/// "12 of 200 points, 4 s, about 70 s left": `before` were finished when the sweep began, `added`
/// since, in so many seconds. No estimate before a point is done.
std::string progress_text(std::uint64_t before, std::uint64_t added, std::uint64_t points,
                          double seconds);

class SweepProgress {
 public:
  /// Silent unless `visible`. `before`: points that were finished when the sweep began.
  SweepProgress(bool visible, std::uint64_t before, std::uint64_t points);
  ~SweepProgress();

  bool visible() const { return visible_; }
  /// `added` points have been finished since. At most ten times a second; any thread.
  void show(std::uint64_t added);

 private:
  using Clock = std::chrono::steady_clock;
  const bool visible_;
  const std::uint64_t before_;
  const std::uint64_t points_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_{};
  std::mutex mutex_;
};

}  // namespace orrery::cli
