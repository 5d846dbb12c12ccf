// The device memory of CANN's dispatch: every offset in one place.
#pragma once

#include <array>
#include <cstdint>

#include "moe/arrivals.h"
#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// Calls in turn use one half of the window and of the statuses. A list is the rows of one source
/// for one local expert: in a half of the window they lie by source, then expert; statuses and
/// counts by expert, then source. What no peer writes belongs to the device alone.
class CannWindows {
 protected:
  struct Status {
    float flag = 1.0f;
    std::uint32_t count = 0;
    std::array<std::uint32_t, 6> unused{};
  };
  static_assert(sizeof(Status) == 32);

  /// What follows a row's payload in its slot.
  struct Trailer {
    float scale;
    RowTag tag;
    std::array<std::uint32_t, 4> unused;
  };
  static_assert(sizeof(Trailer) == 32);

  /// Of the sums that the cores tell each other.
  static constexpr std::uint32_t kSumStride = 32;

  /// Adds its regions to `layout`; all rows are of `row_stride` bytes.
  CannWindows(Layout& layout, const Problem& problem, std::uint32_t payload_bytes,
              std::uint64_t row_stride)
      : stride_(row_stride),
        padded_payload_(static_cast<std::uint32_t>(align_up(payload_bytes, 32))),
        devices_(problem.devices),
        cores_(problem.costs.cores),
        experts_(problem.placement.max_local()),
        // A token may name an expert several times only where the gate allows it.
        list_rows_(problem.token_bound *
                   (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)),
        half_rows_(std::uint64_t{devices_} * experts_ * list_rows_),
        status_half_bytes_(align_up(std::uint64_t{devices_} * experts_ * sizeof(Status), 512)) {
    window_ = layout.rows(2 * half_rows_, stride_);
    status_ = layout.flat(2 * status_half_bytes_);
    counts_ = layout.flat(std::uint64_t{devices_} * experts_ * 4);
    sums_ = layout.flat(cores_ * std::uint64_t{kSumStride});
    parity_ = layout.flat(parity_bytes());
    scratch_ = layout.rows(cores_ * std::uint64_t{2}, stride_);
  }

  /// Rows of one source for one expert, at most.
  std::uint32_t list_rows() const { return list_rows_; }
  /// Of a slot, what is sent.
  std::uint32_t record_bytes() const {
    return padded_payload_ + static_cast<std::uint32_t>(sizeof(Trailer));
  }
  fabric::Address slot(std::uint32_t half, std::uint32_t source, std::uint32_t local,
                       std::uint32_t n) const {
    const std::uint64_t list = std::uint64_t{source} * experts_ + local;
    return window_ + (half * half_rows_ + list * list_rows_ + n) * stride_;
  }
  fabric::Address trailer(fabric::Address slot) const { return slot + padded_payload_; }
  fabric::Address status(std::uint32_t half, std::uint32_t index) const {
    return status_ + half * status_half_bytes_ + std::uint64_t{index} * sizeof(Status);
  }

  // --- Of the device alone ---
  /// Rows of a list, 32 bits; list 0 is the first of all.
  fabric::Address count(std::uint32_t index) const { return counts_ + std::uint64_t{index} * 4; }
  /// Rows of all lists of a core, 32 bits.
  fabric::Address sum(std::uint32_t core) const { return sums_ + std::uint64_t{core} * kSumStride; }
  /// One of the two rows of a core's queue.
  fabric::Address buffer(std::uint32_t core, std::uint32_t which) const {
    return scratch_ + (std::uint64_t{core} * 2 + which) * stride_;
  }
  std::uint64_t buffer_bytes() const { return std::uint64_t{cores_} * 2 * stride_; }
  /// The half of a core's next call, 32 bits, for each of two operations. The first is at (0, 0).
  fabric::Address parity(std::uint32_t core, std::uint32_t operation) const {
    return parity_ + (std::uint64_t{core} * 2 + operation) * kParityStride;
  }
  std::uint64_t parity_bytes() const { return std::uint64_t{cores_} * 2 * kParityStride; }

 private:
  static constexpr std::uint32_t kParityStride = 512;

  std::uint64_t stride_;
  std::uint32_t padded_payload_;
  std::uint32_t devices_;
  std::uint32_t cores_;
  std::uint32_t experts_;
  std::uint32_t list_rows_;
  std::uint64_t half_rows_;
  std::uint64_t status_half_bytes_;
  fabric::Address window_;
  fabric::Address status_;
  fabric::Address counts_;
  fabric::Address sums_;
  fabric::Address parity_;
  fabric::Address scratch_;
};

}  // namespace orrery::moe
