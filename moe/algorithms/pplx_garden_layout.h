// The device memory of pplx-garden's all-to-all: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// One set of all serves all calls. Rows in the send buffer, and combined ones, lie by position: a
/// device's rows in order of (expert, token), so that those for a peer are neighbours. Counters are
/// words of 64 bits that writes of peers add to when they are complete.
class PplxGardenBuffers {
 protected:
  /// Adds its regions to `layout`; all rows are of `row_stride` bytes.
  PplxGardenBuffers(Layout& layout, const Problem& problem, std::uint64_t row_stride,
                    std::uint64_t private_rows)
      : stride_(row_stride),
        devices_(problem.devices),
        experts_(problem.placement.experts()),
        max_local_(problem.placement.max_local()) {
    const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
    private_rows_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(private_rows, std::max<std::uint64_t>(entries, 1)));
    staged_ = layout.rows(problem.token_bound, stride_);
    send_x_ = layout.rows(entries, stride_);
    private_x_ = layout.rows(std::uint64_t{devices_} * private_rows_, stride_);
    overflow_x_ = layout.rows(devices_ * entries, stride_);
    combine_x_ = layout.rows(entries, stride_);
    counts_ = layout.flat(std::uint64_t{devices_} * experts_ * 4);
    list_rows_ = layout.flat(std::uint64_t{devices_} * max_local_ * 4);
    near_ = layout.flat(devices_ * 8ull);
    words_ = layout.flat(kWords * kWordStride);
    calls_ = layout.flat(std::uint64_t{problem.costs.cores} * 4);
  }

  /// Of a source there are so many private slots.
  std::uint32_t private_rows() const { return private_rows_; }
  /// A token's payload, until its rows are written.
  fabric::Address staged(std::uint32_t token) const { return staged_ + token * stride_; }
  fabric::Address send_row(std::uint32_t position) const { return send_x_ + position * stride_; }
  fabric::Address private_slot(std::uint32_t source, std::uint32_t index) const {
    return private_x_ + (std::uint64_t{source} * private_rows_ + index) * stride_;
  }
  /// Rows that are in no private slot, those of one source after the other's.
  fabric::Address overflow_slot(std::uint64_t slot) const { return overflow_x_ + slot * stride_; }
  fabric::Address combine_row(std::uint32_t position) const {
    return combine_x_ + position * stride_;
  }
  /// Rows that `source` has for each expert, 32 bits each.
  fabric::Address counts(std::uint32_t source) const {
    return counts_ + std::uint64_t{source} * experts_ * 4;
  }
  /// Rows that this device gets, by [source][local expert], 32 bits each.
  fabric::Address list_rows(std::uint32_t source) const {
    return list_rows_ + std::uint64_t{source} * max_local_ * 4;
  }
  /// Counts what a device of this node has put here.
  fabric::Address near(std::uint32_t source) const { return near_ + source * 8ull; }
  /// Counts the peers whose counts are here.
  fabric::Address routed() const { return word(0); }
  /// Counts the slabs of rows, and of combined rows, that are here.
  fabric::Address arrived() const { return word(1); }
  /// Counts the peers that are through with a call.
  fabric::Address through(std::uint32_t call) const {
    const std::uint32_t half = call % 2;
    return word(2 + half);
  }
  /// Counts the own cores whose rows are in the send buffer.
  fabric::Address sent() const { return word(4); }
  /// The call of which the own cores may know what comes; and of which all of it is here. 32 bits.
  fabric::Address counted() const { return word(5); }
  fabric::Address complete() const { return word(6); }
  /// Each core's own count of its calls.
  fabric::Address calls(std::uint32_t core) const { return calls_ + core * 4ull; }

 private:
  static constexpr std::uint64_t kWords = 7;
  static constexpr std::uint64_t kWordStride = 64;
  fabric::Address word(std::uint64_t number) const { return words_ + number * kWordStride; }

  std::uint64_t stride_;
  std::uint32_t devices_;
  std::uint32_t experts_;
  std::uint32_t max_local_;
  std::uint32_t private_rows_;
  fabric::Address staged_;
  fabric::Address send_x_;
  fabric::Address private_x_;
  fabric::Address overflow_x_;
  fabric::Address combine_x_;
  fabric::Address counts_;
  fabric::Address list_rows_;
  fabric::Address near_;
  fabric::Address words_;
  fabric::Address calls_;
};

}  // namespace orrery::moe
