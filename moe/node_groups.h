// Devices in equal groups, for collectives of two levels: the devices of a node, say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::moe {

class NodeGroups {
 public:
  /// `nodes`: of every device, by any numbers. Groups are numbered by their first devices, members
  /// by device. Where groups are of different sizes, or of one device each, or there is but one,
  /// all devices are one group: two levels would be none.
  explicit NodeGroups(const std::vector<std::uint32_t>& nodes)
      : group_of_(nodes.size()), member_of_(nodes.size()) {
    std::vector<std::uint32_t> seen;
    for (std::uint32_t device = 0; device < nodes.size(); ++device) {
      const auto known = std::find(seen.begin(), seen.end(), nodes[device]);
      const auto group = static_cast<std::uint32_t>(known - seen.begin());
      if (known == seen.end()) {
        seen.push_back(nodes[device]);
        devices_.emplace_back();
      }
      group_of_[device] = group;
      member_of_[device] = static_cast<std::uint32_t>(devices_[group].size());
      devices_[group].push_back(device);
    }
    const bool equal = std::all_of(devices_.begin(), devices_.end(), [this](const auto& group) {
      return group.size() == devices_[0].size();
    });
    if (equal && devices_[0].size() > 1) return;
    devices_.assign(1, {});
    for (std::uint32_t device = 0; device < nodes.size(); ++device) {
      devices_[0].push_back(device);
      group_of_[device] = 0;
      member_of_[device] = device;
    }
  }

  /// The same of `devices` devices, `size` by `size`.
  static NodeGroups consecutive(std::uint32_t devices, std::uint64_t size) {
    std::vector<std::uint32_t> nodes(devices);
    for (std::uint32_t device = 0; device < devices; ++device) {
      nodes[device] = static_cast<std::uint32_t>(device / size);
    }
    return NodeGroups(nodes);
  }

  std::uint32_t groups() const { return static_cast<std::uint32_t>(devices_.size()); }
  std::uint32_t members() const { return static_cast<std::uint32_t>(devices_[0].size()); }
  std::uint32_t group_of(std::uint32_t device) const { return group_of_[device]; }
  /// Among its group's.
  std::uint32_t member_of(std::uint32_t device) const { return member_of_[device]; }
  std::uint32_t device(std::uint32_t group, std::uint32_t member) const {
    return devices_[group][member];
  }

 private:
  std::vector<std::vector<std::uint32_t>> devices_;
  std::vector<std::uint32_t> group_of_;
  std::vector<std::uint32_t> member_of_;
};

}  // namespace orrery::moe
