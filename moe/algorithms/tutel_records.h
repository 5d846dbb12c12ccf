// The rows of Tutel's all-to-all and what a device keeps of them: every size and offset in one
// place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "moe/arrivals.h"
#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// A slice is what one device sends another: capacity rows for each local expert, as many experts
/// as any device has. A list is those of one local expert from one source; lists are numbered by
/// expert, then source.
class TutelRecords {
 protected:
  /// What follows a row's payload.
  struct Trailer {
    std::uint32_t used = 0;  // 0: padding
    RowTag tag{};
    std::array<std::uint32_t, 4> unused{};
  };
  static_assert(sizeof(Trailer) == 32);

  /// Adds its regions to `layout`. `capacity`: where it is fixed.
  TutelRecords(Layout& layout, const Problem& problem, std::optional<std::uint32_t> capacity,
               std::uint32_t payload_bytes)
      : padded_payload_(static_cast<std::uint32_t>(align_up(payload_bytes, 32))),
        lists_(problem.devices * problem.placement.max_local()),
        max_capacity_(
            capacity.value_or(problem.token_bound *
                              (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1))),
        max_slice_rows_(problem.placement.max_local() * max_capacity_) {
    list_rows_ = layout.flat(std::uint64_t{lists_} * 4);
    places_ = layout.flat(std::uint64_t{lists_} * max_capacity_ * 4);
    for (const RoutingTable& table : problem.tables) {
      std::uint32_t most = capacity.value_or(0);
      for (std::uint32_t device = 0; !capacity && device < problem.devices; ++device) {
        for (const std::uint32_t rows : table.counts(device)) most = std::max(most, rows);
      }
      padded_rows_ = std::max(padded_rows_, std::uint64_t{lists_} * most);
    }
  }

  std::uint32_t record_bytes() const {
    return padded_payload_ + static_cast<std::uint32_t>(sizeof(Trailer));
  }
  fabric::Address trailer(fabric::Address record) const { return record + padded_payload_; }
  std::uint32_t lists() const { return lists_; }
  /// Rows of a slice, at most.
  std::uint32_t max_slice_rows() const { return max_slice_rows_; }
  /// Rows that a device sends, padding and all, in the largest of all calls.
  std::uint64_t padded_rows() const { return padded_rows_; }
  /// Of a list, how many rows are not padding, 32 bits.
  fabric::Address list_rows(std::uint32_t list) const {
    return list_rows_ + std::uint64_t{list} * 4;
  }
  /// Of an expanded row, its place in its list as it came, 32 bits.
  fabric::Address place(std::uint64_t row) const { return places_ + row * 4; }

 private:
  std::uint32_t padded_payload_;
  std::uint32_t lists_;
  std::uint32_t max_capacity_;
  std::uint32_t max_slice_rows_;
  std::uint64_t padded_rows_ = 0;
  fabric::Address list_rows_;
  fabric::Address places_;
};

}  // namespace orrery::moe
