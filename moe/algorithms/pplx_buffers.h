// The device memory of pplx-kernels: every offset in one place.
#pragma once

#include <cstdint>

#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// Dispatch has messages by list, that is by [local expert][source], and slot; and of each list the
/// number of its rows that have come and, plus 1, that will come. Combine has rows by [token][k]
/// and of each token the number that have come. Words count 64 bits. One set of all serves all
/// calls: a device says when it is through with one.
class PplxBuffers {
 protected:
  /// Adds its regions to `layout`; all rows are of `row_stride` bytes.
  PplxBuffers(Layout& layout, const Problem& problem, std::uint64_t row_stride)
      : stride_(row_stride),
        devices_(problem.devices),
        top_k_(problem.top_k()),
        // A token may name an expert several times only where the gate allows it.
        slots_(problem.token_bound *
               (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)) {
    const std::uint64_t lists = std::uint64_t{devices_} * problem.placement.max_local();
    const std::uint64_t entries = std::uint64_t{problem.token_bound} * top_k_;
    dispatch_x_ = layout.rows(lists * slots_, stride_);
    combine_x_ = layout.rows(entries, stride_);
    send_x_ = layout.rows(problem.token_bound + entries, stride_);
    expected_ = layout.flat(lists * 8);
    received_ = layout.flat(lists * 8);
    returned_ = layout.flat(std::uint64_t{problem.token_bound} * 8);
    through_ = layout.flat(2ull * devices_ * 4);
    list_rows_ = layout.flat(lists * 4);
    calls_ = layout.flat(std::uint64_t{problem.costs.cores} * 4);
  }

  std::uint32_t list(std::uint32_t local, std::uint32_t source) const {
    return local * devices_ + source;
  }
  fabric::Address dispatch_slot(std::uint32_t list, std::uint32_t slot) const {
    return dispatch_x_ + (list * slots_ + slot) * stride_;
  }
  fabric::Address combine_slot(std::uint32_t token, std::uint32_t k) const {
    return combine_x_ + (std::uint64_t{token} * top_k_ + k) * stride_;
  }
  /// A token's row as it is sent, then its messages.
  fabric::Address staged(std::uint32_t token) const {
    return send_x_ + std::uint64_t{token} * (1 + top_k_) * stride_;
  }
  fabric::Address message(std::uint32_t token, std::uint32_t k) const {
    return staged(token) + (1 + k) * stride_;
  }
  /// Rows of a list that will come, plus 1; 0: not known.
  fabric::Address expected(std::uint32_t list) const { return expected_ + list * 8ull; }
  /// Rows of a list that are complete.
  fabric::Address received(std::uint32_t list) const { return received_ + list * 8ull; }
  /// Rows of a token that are back and complete.
  fabric::Address returned(std::uint32_t token) const { return returned_ + token * 8ull; }
  /// The call that a device was the latest to be through with, of those of this call's parity; 32
  /// bits.
  fabric::Address through(std::uint32_t call, std::uint32_t device) const {
    const std::uint32_t half = call % 2;
    return through_ + (half * devices_ + device) * 4ull;
  }
  /// Rows of a list in this call, 32 bits: for the device's own cores.
  fabric::Address list_rows(std::uint32_t list) const { return list_rows_ + list * 4ull; }
  /// Each core's own count of its calls.
  fabric::Address calls(std::uint32_t core) const { return calls_ + core * 4ull; }

 private:
  std::uint64_t stride_;
  std::uint32_t devices_;
  std::uint32_t top_k_;
  std::uint64_t slots_;
  fabric::Address dispatch_x_;
  fabric::Address combine_x_;
  fabric::Address send_x_;
  fabric::Address expected_;
  fabric::Address received_;
  fabric::Address returned_;
  fabric::Address through_;
  fabric::Address list_rows_;
  fabric::Address calls_;
};

}  // namespace orrery::moe
