// Hybrid-EP's maps: where every row of a call goes, known to every device before any payload moves.
// All devices gather the ids of all tokens; a scan makes of them, for each device, a row for every
// token that has any of its experts, sources in order and their tokens in order.
//
// A device keeps the rows that it has to do with: at the members of its own node, of the tokens of
// the devices of its own place on all nodes, which pass through it; and how many rows it has
// itself.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "moe/expert_placement.h"
#include "moe/layout.h"
#include "moe/node_groups.h"

namespace orrery::moe {

class HybridEpMaps {
 public:
  static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

  HybridEpMaps(const NodeGroups& groups, const ExpertPlacement& placement,
               std::uint32_t token_bound, std::uint32_t top_k, Layout& layout);

  /// All cores, `tokens` tokens with ids at `ids`. Behind it every device has everybody's ids of
  /// call `call` (from 1), and so has begun it.
  emu::Task gather(devices::Core& core, std::uint32_t call, fabric::Address ids,
                   std::uint32_t tokens) const;
  /// All cores, after they have met behind gather(). They must meet again before they read.
  emu::Task scan(devices::Core& core) const;

  /// Tokens of the device of this place on `node`.
  std::uint32_t tokens(devices::Core& core, std::uint32_t node) const {
    return core.load<std::uint32_t>(tokens_ + node * 4ull);
  }
  /// A token of that device: its row at `member` of this node, or kNoRow.
  std::uint32_t row(devices::Core& core, std::uint32_t node, std::uint32_t token,
                    std::uint32_t member) const {
    return core.load<std::uint32_t>(
        rows_ + ((std::uint64_t{node} * token_bound_ + token) * groups_.members() + member) * 4);
  }
  /// The members of this node at which it has a row, ascending.
  std::vector<std::uint32_t> members(devices::Core& core, std::uint32_t node,
                                     std::uint32_t token) const;
  /// The nodes that have any expert of a token of this device, ascending.
  std::vector<std::uint32_t> nodes(devices::Core& core, std::uint32_t token) const;
  /// Rows of this device.
  std::uint32_t received(devices::Core& core) const { return core.load<std::uint32_t>(received_); }

 private:
  std::uint32_t devices() const { return groups_.groups() * groups_.members(); }
  // The ids of a device: their number of tokens, then [token][k].
  std::uint64_t block_bytes() const { return 4 + std::uint64_t{token_bound_} * top_k_ * 4; }
  fabric::Address gathered(std::uint32_t device) const {
    return gathered_ + device * align_up(block_bytes(), 64);
  }
  fabric::Address flag(std::uint32_t device) const { return flags_ + device * 4ull; }
  bool has(devices::Core& core, std::uint32_t device, std::uint32_t token,
           std::uint32_t owner) const;

  const NodeGroups groups_;
  const ExpertPlacement placement_;
  const std::uint32_t token_bound_;
  const std::uint32_t top_k_;
  fabric::Address gathered_;  // of the next call as soon as this one's end barrier is over
  fabric::Address flags_;
  fabric::Address tokens_;
  fabric::Address rows_;
  fabric::Address received_;
};

}  // namespace orrery::moe
