// The device memory of Triton-distributed's all-to-all: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe::triton {

/// Calls of both operations take turns with two sets of what peers write: rows, splits, scales and
/// signals. A peer writes into a set again two calls later, when it has had this device's signal of
/// the call in between, which is sent when the kernel that read the set has ended. What a device
/// sends from is given up or has left before its call ends.
class TritonLayout {
 public:
  /// Adds its regions to `layout`; all rows are of `row_stride` bytes.
  TritonLayout(Layout& layout, const Problem& problem, std::uint64_t row_stride)
      : stride_(row_stride),
        devices_(problem.devices),
        locals_(std::max(problem.placement.max_local(), 1u)),
        token_bound_(problem.token_bound) {
    const bool duplicates = problem.workload.gate().allow_duplicates();
    const std::uint64_t top_k = problem.top_k();
    slots_ = std::uint64_t{token_bound_} * (duplicates ? top_k : 1);
    slab_rows_ = std::uint64_t{token_bound_} *
                 (duplicates ? top_k : std::min<std::uint64_t>(top_k, locals_));
    const std::uint64_t experts = problem.placement.experts();
    const std::uint64_t entries = token_bound_ * top_k;
    const std::uint64_t lists = std::uint64_t{devices_} * locals_;
    set_rows_ = std::max({devices_ * slab_rows_, lists * slots_, experts * token_bound_});
    out_ = layout.rows(std::max(devices_ * slab_rows_, token_bound_ * (1 + top_k)), stride_);
    in_ = layout.rows(2 * set_rows_, stride_);
    splits_out_ = layout.flat(lists * 4);
    splits_in_ = layout.flat(2 * lists * 4);
    scales_out_ = layout.flat(devices_ * slab_rows_ * 4);
    scales_in_ = layout.flat(2 * devices_ * slab_rows_ * 4);
    signals_ = layout.flat(2ull * devices_ * 4);
    place_ = layout.flat(entries * 4);
    next_slot_ = layout.flat(experts * 4);
    list_begin_ = layout.flat(lists * 4);
    calls_ = layout.flat(std::uint64_t{problem.costs.cores} * 4);
  }

  // --- v1: a slab of rows, their scales and the splits of each pair of devices ---
  fabric::Address slab_out(std::uint32_t peer, std::uint64_t row) const {
    return out_ + (peer * slab_rows_ + row) * stride_;
  }
  fabric::Address slab_in(std::uint32_t set, std::uint32_t peer, std::uint64_t row) const {
    return in_ + (set * set_rows_ + peer * slab_rows_ + row) * stride_;
  }
  fabric::Address scale_out(std::uint32_t peer, std::uint64_t row) const {
    return scales_out_ + (peer * slab_rows_ + row) * 4;
  }
  fabric::Address scale_in(std::uint32_t set, std::uint32_t peer, std::uint64_t row) const {
    return scales_in_ + ((std::uint64_t{set} * devices_ + peer) * slab_rows_ + row) * 4;
  }
  /// Where the entry [token][k] is in the slab of its expert's owner, 32 bits.
  fabric::Address place(std::uint64_t entry) const { return place_ + entry * 4; }

  // --- v2: a slot per row ---
  /// A token's row as it is sent, then its messages.
  fabric::Address staged(std::uint32_t token, std::uint32_t top_k) const {
    return out_ + std::uint64_t{token} * (1 + top_k) * stride_;
  }
  fabric::Address message(std::uint32_t token, std::uint32_t k, std::uint32_t top_k) const {
    return staged(token, top_k) + (1 + k) * stride_;
  }
  fabric::Address dispatch_slot(std::uint32_t set, std::uint32_t local, std::uint32_t source,
                                std::uint32_t slot) const {
    const std::uint64_t list = std::uint64_t{local} * devices_ + source;
    return in_ + (set * set_rows_ + list * slots_ + slot) * stride_;
  }
  fabric::Address combine_slot(std::uint32_t set, std::uint32_t expert, std::uint32_t token) const {
    return in_ + (set * set_rows_ + std::uint64_t{expert} * token_bound_ + token) * stride_;
  }
  /// Rows for an expert that this device's cores have taken slots for, 32 bits.
  fabric::Address next_slot(std::uint32_t expert) const { return next_slot_ + expert * 4ull; }
  /// Where the rows of one source begin among those of a local expert, 32 bits.
  fabric::Address list_begin(std::uint32_t local, std::uint32_t source) const {
    return list_begin_ + (std::uint64_t{local} * devices_ + source) * 4;
  }

  // --- Both ---
  /// Rows for each local expert of `peer`, and from `peer` for each here, 32 bits each.
  fabric::Address splits_out(std::uint32_t peer) const {
    return splits_out_ + std::uint64_t{peer} * locals_ * 4;
  }
  fabric::Address splits_in(std::uint32_t set, std::uint32_t peer) const {
    return splits_in_ + (std::uint64_t{set} * devices_ + peer) * locals_ * 4;
  }
  /// The number of the call whose puts of `peer` are there, 32 bits.
  fabric::Address signal(std::uint32_t set, std::uint32_t peer) const {
    return signals_ + (std::uint64_t{set} * devices_ + peer) * 4;
  }
  /// Each core's own count of its calls.
  fabric::Address calls(std::uint32_t core) const { return calls_ + core * 4ull; }

 private:
  std::uint64_t stride_;
  std::uint32_t devices_;
  std::uint32_t locals_;
  std::uint32_t token_bound_;
  std::uint64_t slots_;
  std::uint64_t slab_rows_;
  std::uint64_t set_rows_;
  fabric::Address out_;
  fabric::Address in_;
  fabric::Address splits_out_;
  fabric::Address splits_in_;
  fabric::Address scales_out_;
  fabric::Address scales_in_;
  fabric::Address signals_;
  fabric::Address place_;
  fabric::Address next_slot_;
  fabric::Address list_begin_;
  fabric::Address calls_;
};

}  // namespace orrery::moe::triton
