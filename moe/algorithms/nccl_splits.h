// What the host of a device knows once it has everybody's counts: which rows of its lists go where.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "moe/expert_placement.h"
#include "moe/share.h"

namespace orrery::moe {

/// Rows from one device to another, consecutive in the lists of both.
struct Chunk {
  std::uint64_t from;
  std::uint64_t to;
  std::uint32_t count;
};

/// Two lists per device: its own rows by expert ("permuted"), and the rows for its experts by
/// source, then expert ("by source").
class NcclSplits {
 public:
  using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  /// `counts`: rows by [source][expert], all devices and experts of `placement`. Kept by reference.
  NcclSplits(std::span<const std::uint32_t> counts, const ExpertPlacement& placement,
             std::uint32_t device)
      : counts_(counts), placement_(placement), device_(device) {}

  std::uint32_t count(std::uint32_t source, std::uint32_t expert) const {
    return counts_[std::size_t{source} * placement_.experts() + expert];
  }
  /// From this device's permuted list into the peer's list by source.
  Chunk forth(std::uint32_t peer) const { return chunk(device_, peer); }
  /// From this device's list by source back into the permuted list of `peer`.
  Chunk back(std::uint32_t peer) const {
    const Chunk there = chunk(peer, device_);
    return {there.to, there.from, there.count};
  }
  /// Where a device's own rows for each expert begin in its permuted list.
  std::vector<std::uint32_t> starts() const {
    const auto own =
        counts_.subspan(std::size_t{device_} * placement_.experts(), placement_.experts());
    std::vector<std::uint32_t> starts(own.size());
    std::exclusive_scan(own.begin(), own.end(), starts.begin(), 0u);
    return starts;
  }
  /// Rows for the device's `local`-th expert from everybody.
  std::uint32_t rows_of(std::uint32_t local) const {
    std::uint32_t sum = 0;
    for (std::uint32_t source = 0; source < placement_.devices(); ++source) {
      sum += count(source, placement_.begin(device_) + local);
    }
    return sum;
  }
  /// Of the blocks (local expert, source) of this device, in that order, those in `blocks`: the
  /// place of each row by source, and by expert.
  Places sorted(Share blocks) const {
    const std::uint32_t first = placement_.begin(device_);
    std::vector<std::uint64_t> by_source(placement_.devices(), 0);
    for (std::uint32_t source = 1; source < by_source.size(); ++source) {
      by_source[source] = by_source[source - 1] + rows(source - 1, device_);
    }
    Places places;
    std::uint64_t by_expert = 0;
    for (std::uint32_t block = 0; block < blocks.end; ++block) {
      const std::uint32_t source = block % placement_.devices();
      const std::uint32_t rows = count(source, first + block / placement_.devices());
      for (std::uint32_t i = 0; i < rows; ++i, ++by_source[source], ++by_expert) {
        if (block >= blocks.begin) places.emplace_back(by_source[source], by_expert);
      }
    }
    return places;
  }

 private:
  // Rows of `source` for the experts [first, last).
  std::uint64_t sum(std::uint32_t source, std::uint32_t first, std::uint32_t last) const {
    std::uint64_t rows = 0;
    for (std::uint32_t expert = first; expert < last; ++expert) rows += count(source, expert);
    return rows;
  }
  std::uint64_t rows(std::uint32_t source, std::uint32_t owner) const {
    return sum(source, placement_.begin(owner), placement_.end(owner));
  }
  Chunk chunk(std::uint32_t source, std::uint32_t owner) const {
    Chunk chunk{sum(source, 0, placement_.begin(owner)), 0,
                static_cast<std::uint32_t>(rows(source, owner))};
    for (std::uint32_t before = 0; before < source; ++before) chunk.to += rows(before, owner);
    return chunk;
  }

  std::span<const std::uint32_t> counts_;
  const ExpertPlacement& placement_;
  std::uint32_t device_;
};

}  // namespace orrery::moe
