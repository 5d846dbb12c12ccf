// The device memory of dispatch and combine on collectives: every offset in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

/// Every buffer is single. Each exchange of a call is a barrier of all devices, since everybody
/// signals everybody, rows or not, and has signals and buffers of its own. So whoever puts into one
/// has seen, in the exchange before, that its peer is past all that reads what the last call left
/// there: counts are read until the exchange of rows begins, those rows until the outputs come
/// back, and the outputs until the peer's next counts. What is needed longer, the host's copy of
/// the counts, no peer writes.
class NcclBuffers {
 protected:
  enum Exchange : std::uint32_t { kCounts, kRows, kProbs, kOutputs, kExchanges };
  /// Rows of one list, `stride` apart.
  struct Rows {
    fabric::Address base;
    std::uint64_t stride;
    fabric::Address operator()(std::uint64_t row) const { return base + row * stride; }
  };

  /// Adds its regions to `layout`. `channels`: signals of one device to another per exchange.
  NcclBuffers(Layout& layout, const Problem& problem, std::uint64_t row_stride,
              std::uint32_t channels)
      : devices_(problem.devices), experts_(problem.placement.experts()), channels_(channels) {
    const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
    const std::uint64_t rows = std::uint64_t{devices_} * problem.token_bound *
                               (problem.workload.gate().allow_duplicates()
                                    ? problem.top_k()
                                    : std::min(problem.top_k(), problem.placement.max_local()));
    counts_ = layout.flat(matrix() * 4);
    host_counts_ = layout.flat(matrix() * 4);
    place_ = layout.flat(entries * 4);
    permuted = {layout.rows(entries, row_stride), row_stride};
    by_source = {layout.rows(rows, row_stride), row_stride};
    unsorted = {layout.rows(rows, row_stride), row_stride};
    returned = {layout.rows(entries, row_stride), row_stride};
    permuted_probs = {layout.flat(entries * 4), 4};
    probs_by_source = {layout.flat(rows * 4), 4};
    expert_probs = {layout.flat(rows * 4), 4};
    signals_ = layout.flat(std::uint64_t{kExchanges} * devices_ * channels_ * 4);
  }

  Rows permuted;        // dispatch, at the origin: by expert, then token
  Rows by_source;       // and at the owner: by source, then expert
  Rows unsorted;        // combine, at the owner: the same
  Rows returned;        // and at the origin: as permuted
  Rows permuted_probs;  // floats, along with the rows
  Rows probs_by_source;
  Rows expert_probs;

  /// 32-bit counts by [source][expert], and how many.
  fabric::Address counts(std::uint32_t source) const {
    return counts_ + source * (experts_ * 4ull);
  }
  fabric::Address host_counts(std::uint32_t source) const {
    return host_counts_ + source * (experts_ * 4ull);
  }
  std::uint64_t matrix() const { return std::uint64_t{devices_} * experts_; }
  /// Where a [token][k] is in the permuted list, 32 bits.
  fabric::Address place(std::uint64_t entry) const { return place_ + entry * 4; }
  std::uint32_t channels_of(Exchange exchange) const { return exchange == kCounts ? 1 : channels_; }
  /// The number of the source's latest call, 32 bits.
  fabric::Address signal(Exchange exchange, std::uint32_t source, std::uint32_t channel) const {
    const std::uint64_t first = std::uint64_t{exchange} * devices_ * channels_;
    return signals_ + (first + source * channels_of(exchange) + channel) * 4;
  }

 private:
  std::uint32_t devices_;
  std::uint32_t experts_;
  std::uint32_t channels_;
  fabric::Address counts_;
  fabric::Address host_counts_;
  fabric::Address place_;
  fabric::Address signals_;
};

}  // namespace orrery::moe
