// The device memory of DeepEP V2's kernels: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"
#include "moe/node_groups.h"
#include "moe/problem.h"

namespace orrery::moe {

/// Fixed buffers for all that could come: a call begins with a barrier of all devices instead of
/// any flow control. With one group a *lane* is a source device, and messages come from it
/// directly. With several it is the member of the own group that forwards them, from all devices of
/// its place; those come to it through *channels*: core c of one device sends to core c of the
/// other.
class DeepEpV2Buffers {
 protected:
  /// A choice of a forwarded token whose expert is on this node.
  struct Hop {
    std::uint16_t k;
    std::uint16_t member;  // of this node, who has the expert
    std::uint32_t turn;    // of the token among what the channel sent that member
  };
  /// A forwarded token; its hops lie behind it, k ascending.
  struct Forwarded {
    std::uint32_t node;  // that it is from
    std::uint32_t token;
    std::uint32_t hops;
    std::uint32_t unused;
  };

  DeepEpV2Buffers(const Problem& problem, const NodeGroups& groups, std::uint32_t channels)
      : nodes_(groups.groups()),
        lanes_(groups.members()),
        channels_(channels),
        tokens_(problem.token_bound),
        top_k_(problem.top_k()),
        lane_slots_(std::uint64_t{nodes_} * tokens_),
        channel_slots_((tokens_ + channels - 1) / channels) {}

  /// Adds its regions to `layout`; `rows(count)` adds one of messages, `stride` apart.
  template <typename Rows>
  void lay_out(Layout& layout, std::uint64_t stride, std::uint64_t taken_bytes, std::uint32_t cores,
               Rows&& rows) {
    stride_ = stride;
    taken_bytes_ = taken_bytes;
    const std::uint64_t parts = std::max(lanes_, top_k_);
    send_ = rows(tokens_);
    recv_ = rows(lanes_ * lane_slots_);
    part_ = rows(parts * lane_slots_);
    stage_ = rows(cores * 2ull);
    taken_ = layout.flat(lanes_ * lane_slots_ * taken_bytes);
    next_slot_ = layout.flat(lanes_ * 4ull);
    calls_ = layout.flat(cores * 4ull);
    if (nodes_ == 1) return;
    const std::uint64_t channel_rows = std::uint64_t{nodes_} * channels_ * channel_slots_;
    rail_ = rows(channel_rows);
    combined_ = rows(std::uint64_t{std::max(nodes_, top_k_)} * tokens_);
    forwarded_ = layout.flat(channel_rows * forwarded_bytes());
    forwarded_count_ = layout.flat(channels_ * 4ull);
    rail_tails_ = layout.flat(std::uint64_t{nodes_} * channels_ * 8);
    lane_tails_ = layout.flat(std::uint64_t{lanes_} * channels_ * 8);
  }

  std::uint32_t lanes() const { return lanes_; }
  std::uint32_t channels() const { return channels_; }
  /// A token's message as it leaves its device.
  fabric::Address send(std::uint32_t token) const { return send_ + token * stride_; }
  /// Messages that a lane sent; what became of them (DedupLayer::expand).
  fabric::Address recv(std::uint32_t lane, std::uint32_t slot) const {
    return recv_ + (lane * lane_slots_ + slot) * stride_;
  }
  fabric::Address taken(std::uint32_t lane, std::uint32_t slot) const {
    return taken_ + (lane * lane_slots_ + slot) * taken_bytes_;
  }
  /// Slots of a lane's peer that this device, as a lane, has filled, 32 bits.
  fabric::Address next_slot(std::uint32_t lane) const { return next_slot_ + lane * 4ull; }
  /// Rows on their way back, of a device (or choice) `from`, for a token of `node` that passes
  /// here, or of this device.
  fabric::Address part(std::uint32_t from, std::uint32_t node, std::uint32_t token) const {
    return part_ + (from * lane_slots_ + std::uint64_t{node} * tokens_ + token) * stride_;
  }
  /// Two rows of a core, in turn.
  fabric::Address stage(std::uint32_t core, std::uint32_t turn) const {
    return stage_ + (core * 2ull + turn) * stride_;
  }
  /// Each core's own count of its calls.
  fabric::Address calls(std::uint32_t core) const { return calls_ + core * 4ull; }

  // --- Several groups ---
  std::uint32_t channel_of(std::uint32_t token) const { return token % channels_; }
  /// Messages of the device of the own place on `node`.
  fabric::Address rail(std::uint32_t node, std::uint32_t channel, std::uint32_t index) const {
    return rail_ + ((std::uint64_t{node} * channels_ + channel) * channel_slots_ + index) * stride_;
  }
  /// How many of them are there: a word of progress, 64 bits.
  fabric::Address rail_tail(std::uint32_t node, std::uint32_t channel) const {
    return rail_tails_ + (std::uint64_t{node} * channels_ + channel) * 8;
  }
  /// The same of parts that a member of the own group sends on its way back through this device.
  fabric::Address lane_tail(std::uint32_t member, std::uint32_t channel) const {
    return lane_tails_ + (std::uint64_t{member} * channels_ + channel) * 8;
  }
  std::uint64_t forwarded_bytes() const { return sizeof(Forwarded) + top_k_ * sizeof(Hop); }
  fabric::Address forwarded(std::uint32_t channel, std::uint32_t index) const {
    return forwarded_ +
           (std::uint64_t{channel} * nodes_ * channel_slots_ + index) * forwarded_bytes();
  }
  fabric::Address forwarded_count(std::uint32_t channel) const {
    return forwarded_count_ + channel * 4ull;
  }
  /// A token's rows when they are back, of a node (or choice).
  fabric::Address combined(std::uint32_t from, std::uint32_t token) const {
    return combined_ + (std::uint64_t{from} * tokens_ + token) * stride_;
  }
  /// A word of progress counts what has been sent, and this when that is all. Whoever reads it
  /// clears it for the next call.
  static constexpr std::uint64_t kLast = std::uint64_t{1} << 32;

 private:
  std::uint32_t nodes_;
  std::uint32_t lanes_;
  std::uint32_t channels_;
  std::uint32_t tokens_;
  std::uint32_t top_k_;
  std::uint64_t lane_slots_;
  std::uint64_t channel_slots_;
  std::uint64_t stride_ = 0;
  std::uint64_t taken_bytes_ = 0;
  fabric::Address send_ = 0;
  fabric::Address recv_ = 0;
  fabric::Address part_ = 0;
  fabric::Address stage_ = 0;
  fabric::Address taken_ = 0;
  fabric::Address next_slot_ = 0;
  fabric::Address calls_ = 0;
  fabric::Address rail_ = 0;
  fabric::Address combined_ = 0;
  fabric::Address forwarded_ = 0;
  fabric::Address forwarded_count_ = 0;
  fabric::Address rail_tails_ = 0;
  fabric::Address lane_tails_ = 0;
};

}  // namespace orrery::moe
