// Tutel's two-dimensional hierarchical all-to-all (2DH) of equal slices of rows, out of puts.
//
// A device's slice for every other one is at sending(device, row) when exchange() begins, and the
// slices for it are at received(channel, device, row) when it ends. With G devices on each of N
// nodes: (0) slices are put together by their destination's place in its node; (1) G messages of N
// slices go to the devices of the own node; (2) slices are put together by node; (3) N messages of
// G slices go to the devices at the own place in their nodes. Flat where groups.groups() is 1: a
// message for every device.
//
// Every message is a put, a fence and a flag of one core; or so many of each, of cores that send a
// part of the rows. Flags hold the number of the call, so none is ever cleared. A device may send
// in call n+1 of a channel when every device has taken what it received in call n; between them it
// must have heard from every device (another channel's call, say).
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "moe/layout.h"
#include "moe/node_groups.h"

namespace orrery::moe {

class TwoLevelExchange {
 public:
  /// Slices of up to `max_slice_rows` rows of `row_bytes` each, `row_stride` apart, of which
  /// `channels` exchanges are told apart.
  TwoLevelExchange(NodeGroups groups, std::uint32_t channels, std::uint32_t message_parts,
                   std::uint64_t max_slice_rows, std::uint32_t row_bytes, std::uint64_t row_stride,
                   Layout& layout);

  fabric::Address sending(std::uint32_t device, std::uint64_t row) const {
    return slice_row(outgoing_, slice_of(device), row);
  }
  fabric::Address received(std::uint32_t channel, std::uint32_t device, std::uint64_t row) const {
    return slice_row(incoming_[channel].last, slice_of(device), row);
  }

  /// All cores; begins and ends with a core barrier. `call` counts from 1. All `slice_rows` rows of
  /// every slice must have been written; they are given up.
  emu::Task exchange(devices::Core& core, std::uint32_t channel, std::uint32_t call,
                     std::uint32_t slice_rows) const;

 private:
  struct Incoming {
    fabric::Address first;  // of phase 1; unused where flat
    fabric::Address last;
    fabric::Address flags[2];  // uint32 [peer][part], of either phase
  };
  // One phase: message i, slices [i*slices, (i+1)*slices) of `from`, goes to peers[i], as its
  // slices [mine*slices, …) of `to`.
  struct Phase {
    std::vector<std::uint32_t> peers;
    std::uint32_t mine;    // place of this device among its peers
    std::uint32_t slices;  // per message
    fabric::Address from;
    fabric::Address to;
    fabric::Address flags;
    const char* name;
  };

  std::uint32_t devices() const { return groups_.groups() * groups_.members(); }
  bool flat() const { return groups_.groups() == 1; }
  // Slices lie by (group, member).
  std::uint32_t slice_of(std::uint32_t device) const {
    return groups_.group_of(device) * groups_.members() + groups_.member_of(device);
  }
  fabric::Address slice_row(fabric::Address region, std::uint32_t slice, std::uint64_t row) const {
    return region + (slice * max_slice_rows_ + row) * row_stride_;
  }
  fabric::Address flag(const Phase& phase, std::uint32_t peer, std::uint32_t part) const {
    return phase.flags + (std::uint64_t{peer} * parts_ + part) * 4;
  }

  emu::Task regroup(devices::Core& core, fabric::Address from, fabric::Address to,
                    std::uint32_t columns, std::uint32_t slice_rows) const;
  emu::Task send(devices::Core& core, const Phase& phase, std::uint32_t call,
                 std::uint32_t slice_rows) const;
  emu::Task receive(devices::Core& core, const Phase& phase, std::uint32_t call) const;

  const NodeGroups groups_;
  const std::uint32_t parts_;
  const std::uint64_t max_slice_rows_;
  const std::uint32_t row_bytes_;
  const std::uint64_t row_stride_;
  fabric::Address outgoing_;
  fabric::Address regrouped_;
  std::vector<Incoming> incoming_;  // by channel
};

}  // namespace orrery::moe
