// DeepEP V2's notify: how many messages every device gets from every lane, and how many rows every
// expert gets, told while the messages are already on their way.
//
// A row of counts is a word for the messages and one for each expert of a device, all plus one: a
// word that is not 0 has come. A device sends every other one of its group such a row. With several
// groups the rows for a group go to the device of the own place there, in one put; that one adds up
// what it has from all groups and hands it on. Rows are cleared by who has read them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "devices/core.h"
#include "moe/expert_placement.h"
#include "moe/layout.h"
#include "moe/node_groups.h"

namespace orrery::moe {

class DeepEpV2Counts {
 public:
  /// `counters`: cores that count, each a share of the tokens.
  DeepEpV2Counts(const NodeGroups& groups, const ExpertPlacement& placement, std::uint32_t counters,
                 Layout& layout);

  /// Core `counter` of those that count: its share of `tokens` tokens with `top_k` ids each at
  /// `ids`. The first one then exchanges the counts of all.
  emu::Task run(devices::Core& core, std::uint32_t counter, fabric::Address ids,
                std::uint32_t tokens, std::uint32_t top_k) const;

  /// Messages that lane `lane` (of the own group: its member) sends this device; 32 bits. Known to
  /// all cores when run() is over and they have met. Behind those of all lanes: rows of each local
  /// expert, for the host.
  fabric::Address messages(std::uint32_t lane) const { return result_ + lane * 4ull; }

 private:
  using Counts = std::vector<std::uint32_t>;
  // Rows lie by (group, member): those of a group side by side.
  std::uint32_t row_of(std::uint32_t device) const {
    return groups_.group_of(device) * groups_.members() + groups_.member_of(device);
  }
  std::uint32_t rows() const { return groups_.groups() * groups_.members(); }
  std::uint64_t row_bytes() const { return width_ * 4ull; }
  std::uint64_t block_bytes() const { return groups_.members() * row_bytes(); }
  fabric::Address part(std::uint32_t counter) const {
    return parts_ + counter * rows() * row_bytes();
  }
  fabric::Address from_group(std::uint32_t group) const {
    return from_groups_ + group * block_bytes();
  }
  fabric::Address from_lane(std::uint32_t lane) const { return from_lanes_ + lane * row_bytes(); }

  Counts count(std::span<const std::int32_t> ids, std::uint32_t top_k) const;
  emu::Task exchange(devices::Core& core) const;
  emu::Task wait(devices::Core& core, fabric::Address at, std::uint64_t bytes, std::uint32_t from,
                 const char* what) const;

  const NodeGroups groups_;
  const ExpertPlacement placement_;
  const std::uint32_t counters_;
  const std::uint32_t width_;  // words of a row
  fabric::Address parts_;      // of every counter, rows for all devices
  fabric::Address arrived_;    // counters whose part is there, 64 bits
  fabric::Address outgoing_;   // rows for all devices
  fabric::Address from_groups_;
  fabric::Address summed_;  // rows for the devices of the own group
  fabric::Address from_lanes_;
  fabric::Address result_;
};

}  // namespace orrery::moe
