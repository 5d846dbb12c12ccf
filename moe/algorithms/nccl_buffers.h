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
/// there: counts (count_gather.h) are read until the exchange of rows begins, those rows until the
/// outputs come back, and the outputs until the peer's next counts. What is needed longer, the
/// host's copy of the counts, no peer writes.
class NcclBuffers {
 protected:
  enum Exchange : std::uint32_t { kRows, kProbs, kOutputs, kExchanges };
  /// What the lists of a device hold at most.
  struct Sizes {
    std::uint64_t own;    // rows that it sends
    std::uint64_t taken;  // rows for its experts
    /// Of what comes to the experts, for calls in turn: 2 where counts do not keep devices
    /// together, and one may send its next rows while another still takes those of this call.
    std::uint32_t sets = 1;
    /// Of its tokens' choices, and those of all devices that are for it.
    static Sizes of(const Problem& problem) {
      const std::uint32_t choices = problem.workload.gate().allow_duplicates()
                                        ? problem.top_k()
                                        : std::min(problem.top_k(), problem.placement.max_local());
      return {std::uint64_t{problem.token_bound} * problem.top_k(),
              std::uint64_t{problem.devices} * problem.token_bound * choices};
    }
  };
  /// Rows of one list, `stride` apart.
  struct Rows {
    fabric::Address base;
    std::uint64_t stride;
    fabric::Address operator()(std::uint64_t row) const { return base + row * stride; }
  };

  /// Adds its regions to `layout`. `channels`: signals of one device to another per exchange.
  NcclBuffers(Layout& layout, const Problem& problem, std::uint64_t row_stride,
              std::uint32_t channels, Sizes sizes)
      : devices_(problem.devices), channels_(channels), sizes_(sizes) {
    const std::uint64_t entries = sizes.own;
    const std::uint64_t rows = sizes.taken;
    place_ = layout.flat(std::uint64_t{problem.token_bound} * problem.top_k() * 4);
    permuted = {layout.rows(entries, row_stride), row_stride};
    by_source_ = {layout.rows(sizes.sets * rows, row_stride), row_stride};
    unsorted = {layout.rows(rows, row_stride), row_stride};
    returned = {layout.rows(entries, row_stride), row_stride};
    permuted_probs = {layout.flat(entries * 4), 4};
    probs_by_source_ = {layout.flat(sizes.sets * rows * 4), 4};
    expert_probs = {layout.flat(rows * 4), 4};
    signals_ = layout.flat(std::uint64_t{sizes.sets} * kExchanges * devices_ * channels_ * 4);
  }

  Rows permuted;        // dispatch, at the origin: by expert, then token
  Rows unsorted;        // combine, at the owner: by source, then expert
  Rows returned;        // and at the origin: as permuted
  Rows permuted_probs;  // floats, along with the rows
  Rows expert_probs;
  /// Dispatch, at the owner: by source, then expert.
  Rows by_source(std::uint32_t iteration) const { return in_set(by_source_, iteration); }
  Rows probs_by_source(std::uint32_t iteration) const {
    return in_set(probs_by_source_, iteration);
  }

  /// Where a [token][k] is in the permuted list, 32 bits.
  fabric::Address place(std::uint64_t entry) const { return place_ + entry * 4; }
  std::uint32_t channels() const { return channels_; }
  /// The number of the source's latest call of its set, 32 bits.
  fabric::Address signal(Exchange exchange, std::uint32_t iteration, std::uint32_t source,
                         std::uint32_t channel) const {
    const std::uint32_t set = next_set(iteration);
    const std::uint64_t block = std::uint64_t{set} * kExchanges + exchange;
    return signals_ + ((block * devices_ + source) * channels_ + channel) * 4;
  }

 private:
  std::uint32_t next_set(std::uint32_t iteration) const { return iteration % sizes_.sets; }
  Rows in_set(Rows rows, std::uint32_t iteration) const {
    const std::uint32_t set = next_set(iteration);
    return {rows(std::uint64_t{set} * sizes_.taken), rows.stride};
  }

  std::uint32_t devices_;
  std::uint32_t channels_;
  Sizes sizes_;
  Rows by_source_;
  Rows probs_by_source_;
  fabric::Address place_;
  fabric::Address signals_;
};

}  // namespace orrery::moe
