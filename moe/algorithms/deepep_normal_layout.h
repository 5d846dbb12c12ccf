// The device memory of DeepEP's normal kernels: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/algorithms/ring_queue.h"
#include "moe/layout.h"
#include "moe/node_groups.h"
#include "moe/problem.h"

namespace orrery::moe::deepep {

/// What a call needs beside its ring queues is single: every call begins with a barrier of all
/// devices, which a device enters when its last call has ended. Words that are zero until a peer
/// has written them are cleared by whoever read them.
class NormalLayout {
 public:
  struct Sizes {
    std::uint32_t channels;
    RingSize near;
    RingSize far;
  };

  /// Adds its regions to `layout`. All rows are of `row_stride` bytes; `staged` is a region of
  /// token_bound of them. What is known of a received row takes `taken_bytes`.
  NormalLayout(Layout& layout, const Problem& problem, const NodeGroups& groups, const Sizes& sizes,
               std::uint64_t row_stride, fabric::Address staged, std::uint64_t taken_bytes)
      : devices_(problem.devices),
        nodes_(groups.groups()),
        members_(groups.members()),
        far_tokens_(sizes.far.tokens),
        channel_tokens_((problem.token_bound + sizes.channels - 1) / sizes.channels),
        stride_(row_stride),
        taken_bytes_(taken_bytes),
        staged_(staged),
        near(layout, sizes.channels, nodes_ > 1 ? members_ : devices_, sizes.near, row_stride),
        far(layout, sizes.channels, nodes_ > 1 ? nodes_ : 0, sizes.far, row_stride),
        near_back(layout, sizes.channels, devices_, sizes.near, row_stride),
        far_back(layout, sizes.channels, nodes_ > 1 ? nodes_ : 0, sizes.far, row_stride) {
    const std::uint64_t rows = std::uint64_t{devices_} * problem.token_bound;
    const std::uint64_t lists = std::uint64_t{sizes.channels} * devices_;
    const std::uint64_t links = std::uint64_t{sizes.channels} * nodes_;
    received_ = layout.rows(rows, stride_);
    taken_ = layout.flat(rows * taken_bytes_);
    reduced_ = layout.rows(rows, stride_);
    sums_ = layout.rows(links * far_tokens_, stride_);
    counts_ = layout.flat(devices_ * 4ull);
    rank_begin_ = layout.flat((devices_ + 1ull) * 4);
    offsets_ = layout.flat(lists * 8);
    range_ = layout.flat(lists * 8);
    records_out_ = layout.flat(links * record_words() * 4);
    records_in_ = layout.flat(links * record_words() * 4);
    routes_ = layout.flat(links * (channel_tokens_ + 1) * 8);
    barrier_ = layout.flat((devices_ + 1ull) * 4);
  }

  /// The message of a token of this device.
  fabric::Address staged(std::uint32_t token) const { return staged_ + token * stride_; }

  // --- By row that this device has received: by source, channel, token ---
  fabric::Address received(std::uint64_t row) const { return received_ + row * stride_; }
  /// Which of the experts' rows it became.
  fabric::Address taken(std::uint64_t row) const { return taken_ + row * taken_bytes_; }
  /// The sum of its rows here.
  fabric::Address reduced(std::uint64_t row) const { return reduced_ + row * stride_; }
  /// Where those of a source begin; at `devices` where all end, 32 bits.
  fabric::Address rank_begin(std::uint32_t source) const { return rank_begin_ + source * 4ull; }
  /// How many there are from each, 32 bits.
  fabric::Address count(std::uint32_t source) const { return counts_ + source * 4ull; }

  // --- By channel and source ---
  /// Which of the source's rows for this device the channel carries, as -v - 1 of begin and end, so
  /// that neither is 0; two words.
  fabric::Address offsets(std::uint32_t channel, std::uint32_t source) const {
    return offsets_ + (std::uint64_t{channel} * devices_ + source) * 8;
  }
  /// The same among all rows here, for the way back: begin and count.
  fabric::Address range(std::uint32_t channel, std::uint32_t source) const {
    return range_ + (std::uint64_t{channel} * devices_ + source) * 8;
  }

  // --- Two levels: by channel and node ---
  /// The channel's tokens for a node, then begin and end for each member, all as -v - 1.
  std::uint32_t record_words() const { return 1 + 2 * members_; }
  fabric::Address record_out(std::uint32_t channel, std::uint32_t node) const {
    return records_out_ + link(channel, node) * record_words() * 4;
  }
  fabric::Address record_in(std::uint32_t channel, std::uint32_t node) const {
    return records_in_ + link(channel, node) * record_words() * 4;
  }
  /// Tokens of the node that have come through this device, 64 bits, and the members that each went
  /// to, by bit.
  fabric::Address routed(std::uint32_t channel, std::uint32_t node) const {
    return routes_ + link(channel, node) * (channel_tokens_ + 1) * 8;
  }
  fabric::Address route(std::uint32_t channel, std::uint32_t node, std::uint32_t token) const {
    return routed(channel, node) + (1 + token) * 8ull;
  }
  /// Sums of this node's rows on their way to a node.
  fabric::Address sum(std::uint32_t channel, std::uint32_t node, std::uint32_t position) const {
    return sums_ + (link(channel, node) * far_tokens_ + position % far_tokens_) * stride_;
  }

  // --- Barriers of all devices: their number here, and by peer ---
  fabric::Address barrier_number() const { return barrier_; }
  fabric::Address barrier(std::uint32_t peer) const { return barrier_ + (1 + peer) * 4ull; }

 private:
  std::uint64_t link(std::uint32_t channel, std::uint32_t node) const {
    return std::uint64_t{channel} * nodes_ + node;
  }

  std::uint32_t devices_;
  std::uint32_t nodes_;
  std::uint32_t members_;
  std::uint32_t far_tokens_;
  std::uint32_t channel_tokens_;
  std::uint64_t stride_;
  std::uint64_t taken_bytes_;
  fabric::Address staged_;
  fabric::Address received_;
  fabric::Address taken_;
  fabric::Address reduced_;
  fabric::Address sums_;
  fabric::Address counts_;
  fabric::Address rank_begin_;
  fabric::Address offsets_;
  fabric::Address range_;
  fabric::Address records_out_;
  fabric::Address records_in_;
  fabric::Address routes_;
  fabric::Address barrier_;

 public:
  // Queues of dispatch: to a receiver from every device, or from the members of its node; to a
  // forwarder from the device with its number in every node. And of combine: from every device of
  // the sum, by its member and the origin's node; from every node.
  RingFamily near;
  RingFamily far;
  RingFamily near_back;
  RingFamily far_back;
};

}  // namespace orrery::moe::deepep
