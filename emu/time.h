// Virtual time (design rule R1): int64 picoseconds, the only time there is. 2^63 ps is 106 days.
#pragma once

#include <cstdint>
#include <limits>

namespace orrery::emu {

/// A point in virtual time or a duration, in picoseconds.
using Time = std::int64_t;

inline constexpr Time kPicosecond = 1;
inline constexpr Time kNanosecond = 1'000;
inline constexpr Time kMicrosecond = 1'000'000;
inline constexpr Time kMillisecond = 1'000'000'000;
/// Later than every event: "no event is left".
inline constexpr Time kNever = std::numeric_limits<Time>::max();

/// Nearest picosecond to `ns` nanoseconds (half up). `ns` must be finite and not negative.
constexpr Time from_ns(double ns) { return static_cast<Time>(ns * 1e3 + 0.5); }
constexpr double to_us(Time time) { return static_cast<double>(time) / 1e6; }

/// A rate as the engine uses it: bytes per microsecond, i.e. MB/s. `gb_per_s` is 10^9 bytes per
/// second. Serialisation of `bytes` is ceil(bytes * 1000 / rate) ps with the rate in GB/s (design
/// section 5); a rate of 0 means unlimited and takes no time.
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate from_gb_per_s(double gb_per_s) {
    Rate rate;
    rate.mb_per_s_ = static_cast<std::int64_t>(gb_per_s * 1e3 + 0.5);
    return rate;
  }
  constexpr bool unlimited() const { return mb_per_s_ == 0; }
  constexpr double gb_per_s() const { return static_cast<double>(mb_per_s_) / 1e3; }
  constexpr Time serialisation(std::uint64_t bytes) const {
    if (mb_per_s_ == 0) return 0;
    return static_cast<Time>((bytes * 1'000'000 + static_cast<std::uint64_t>(mb_per_s_) - 1) /
                             static_cast<std::uint64_t>(mb_per_s_));
  }

 private:
  std::int64_t mb_per_s_ = 0;
};

}  // namespace orrery::emu
