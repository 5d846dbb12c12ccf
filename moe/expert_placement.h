// Which device owns which expert: contiguous shares, as even as integers allow.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orrery::moe {

/// Device d of R owns experts [d*E/R, (d+1)*E/R). E need not divide by R: shares differ by at most
/// one, and with E < R some devices own none. All look-ups are O(1); arguments must be in range.
class ExpertPlacement {
 public:
  ExpertPlacement(std::uint32_t experts, std::uint32_t devices)
      : experts_(experts), devices_(devices) {}

  std::uint32_t experts() const { return experts_; }
  std::uint32_t devices() const { return devices_; }

  std::uint32_t begin(std::uint32_t device) const {
    return static_cast<std::uint32_t>(std::uint64_t{device} * experts_ / devices_);
  }
  std::uint32_t end(std::uint32_t device) const { return begin(device + 1); }
  std::uint32_t count(std::uint32_t device) const { return end(device) - begin(device); }

  /// The largest d with begin(d) <= expert, so the one whose share is not empty.
  std::uint32_t owner(std::uint32_t expert) const {
    return static_cast<std::uint32_t>(((std::uint64_t{expert} + 1) * devices_ - 1) / experts_);
  }
  /// Index of `expert` among the experts of its owner.
  std::uint32_t local_index(std::uint32_t expert) const { return expert - begin(owner(expert)); }

  /// The largest number of experts on any device.
  std::uint32_t max_local() const {
    return static_cast<std::uint32_t>((std::uint64_t{experts_} + devices_ - 1) / devices_);
  }

 private:
  std::uint32_t experts_;
  std::uint32_t devices_;
};

}  // namespace orrery::moe
