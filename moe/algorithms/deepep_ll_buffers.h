// The device memory of DeepEP's low-latency kernels: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// Calls of both operations take turns with two sets of rows and words. In a set dispatch has
/// messages by [local expert][source][slot] and counts by [local expert][source], combine has rows
/// by [expert][token] and flags by [expert]. The rest belongs to the device alone.
class DeepEpLlBuffers {
 protected:
  /// Rows of one source among those of a local expert.
  struct Range {
    std::uint32_t begin;
    std::uint32_t count;
  };

  /// Adds its regions to `layout`; all rows are of `row_stride` bytes.
  DeepEpLlBuffers(Layout& layout, const Problem& problem, std::uint64_t row_stride)
      : stride_(row_stride),
        devices_(problem.devices),
        token_bound_(problem.token_bound),
        top_k_(problem.top_k()),
        // A token may name an expert several times only where the gate allows it.
        slots_(problem.token_bound *
               (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)) {
    const std::uint64_t lists = std::uint64_t{devices_} * problem.placement.max_local();
    const std::uint64_t experts = problem.placement.experts();
    set_rows_ = std::max(lists * slots_, experts * token_bound_);
    set_words_ = std::max(lists, experts);
    recv_x_ = layout.rows(2 * set_rows_, stride_);
    recv_words_ = layout.flat(2 * set_words_ * 4);
    send_x_ = layout.rows(std::uint64_t{token_bound_} * (1 + top_k_), stride_);
    next_slot_ = layout.flat(experts * 4);
    finish_ = layout.flat(experts * 8);
    cleaned_ = layout.flat(64);
    recv_range_ = layout.flat(lists * sizeof(Range));
    calls_ = layout.flat(std::uint64_t{problem.costs.cores} * 4);
  }

  fabric::Address dispatch_slot(std::uint32_t set, std::uint32_t local, std::uint32_t source,
                                std::uint32_t slot) const {
    const std::uint64_t list = std::uint64_t{local} * devices_ + source;
    return recv_x_ + (set * set_rows_ + list * slots_ + slot) * stride_;
  }
  fabric::Address combine_slot(std::uint32_t set, std::uint32_t expert, std::uint32_t token) const {
    return recv_x_ + (set * set_rows_ + std::uint64_t{expert} * token_bound_ + token) * stride_;
  }
  std::uint64_t words_of_set() const { return set_words_; }
  fabric::Address recv_word(std::uint32_t set, std::uint64_t index) const {
    return recv_words_ + (set * set_words_ + index) * 4;
  }
  fabric::Address recv_count(std::uint32_t set, std::uint32_t local, std::uint32_t source) const {
    return recv_word(set, std::uint64_t{local} * devices_ + source);
  }
  fabric::Address recv_flag(std::uint32_t set, std::uint32_t expert) const {
    return recv_word(set, expert);
  }
  /// A token's row as it is sent, then its messages.
  fabric::Address staged(std::uint32_t token) const {
    return send_x_ + std::uint64_t{token} * (1 + top_k_) * stride_;
  }
  fabric::Address message(std::uint32_t token, std::uint32_t k) const {
    return staged(token) + (1 + k) * stride_;
  }
  /// Slots of an expert that this device's cores have taken, 32 bits.
  fabric::Address next_slot(std::uint32_t expert) const { return next_slot_ + expert * 4ull; }
  /// Rows for an expert that are issued and released, 64 bits.
  fabric::Address finish(std::uint32_t expert) const { return finish_ + expert * 8ull; }
  /// 1: the other set's words are clean.
  fabric::Address cleaned() const { return cleaned_; }
  fabric::Address recv_range(std::uint32_t local, std::uint32_t source) const {
    return recv_range_ + (std::uint64_t{local} * devices_ + source) * sizeof(Range);
  }
  /// Each core's own count of its calls.
  fabric::Address calls(std::uint32_t core) const { return calls_ + core * 4ull; }

 private:
  std::uint64_t stride_;
  std::uint32_t devices_;
  std::uint32_t token_bound_;
  std::uint32_t top_k_;
  std::uint64_t slots_;
  std::uint64_t set_rows_;
  std::uint64_t set_words_;
  fabric::Address recv_x_;
  fabric::Address recv_words_;
  fabric::Address send_x_;
  fabric::Address next_slot_;
  fabric::Address finish_;
  fabric::Address cleaned_;
  fabric::Address recv_range_;
  fabric::Address calls_;
};

}  // namespace orrery::moe
