#include "cli/sweep_progress.h"

#include <fmt/format.h>

#include <cstdio>

namespace orrery::cli {

namespace {

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string progress_text(std::uint64_t before, std::uint64_t added, std::uint64_t points,
                          double seconds) {
  std::string text =
      fmt::format("{} of {} points, {}", before + added, points, duration_text(seconds));
  if (added > 0 && before + added < points) {
    const double each = seconds / static_cast<double>(added);
    text += fmt::format(", about {} left",
                        duration_text(each * static_cast<double>(points - before - added)));
  }
  return text;
}

SweepProgress::SweepProgress(bool visible, std::uint64_t before, std::uint64_t points)
    : visible_(visible), before_(before), points_(points) {}

SweepProgress::~SweepProgress() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

void SweepProgress::show(std::uint64_t added) {
  if (!visible_) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  constexpr auto kPause = std::chrono::milliseconds(100);
  if (now - shown_ < kPause) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fmt::print(stderr, "\r{}\033[K", progress_text(before_, added, points_, seconds));
}

}  // namespace orrery::cli
