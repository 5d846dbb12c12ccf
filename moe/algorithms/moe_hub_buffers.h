// The memory of moe-hub on a device. What comes from other devices before they know that this one
// has ended its layer is there twice, and layers take turns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "devices/hub.h"
#include "moe/layout.h"

namespace orrery::moe {

class MoeHubBuffers {
 public:
  struct Sizes {
    std::uint32_t devices;
    std::uint32_t experts;      // local ones, at least 1
    std::uint32_t region_rows;  // of an expert
    std::uint32_t block_rows;
    std::uint32_t tokens;
    std::uint32_t top_k;
    std::uint32_t cores;
    std::uint32_t all_experts;
    std::uint64_t row_stride;
  };

  MoeHubBuffers(Layout& layout, const Sizes& sizes) : is_(sizes) {
    const std::uint64_t rows = std::uint64_t{sizes.experts} * (sizes.region_rows + 1);
    rows_ = layout.rows(2 * rows, sizes.row_stride);
    results_ = layout.rows(rows, sizes.row_stride);
    staged_ = layout.rows(std::uint64_t{sizes.tokens} * sizes.top_k, sizes.row_stride);
    const std::uint64_t words = std::uint64_t{sizes.experts} * (blocks() + 1);
    words_ = layout.flat(2 * words * 8);
    ended_ = layout.flat(std::uint64_t{2} * sizes.experts * sizes.devices * 4);
    up_ = layout.flat(words * 8);
    down_ = layout.flat(words * 8);
    returned_ = layout.flat(std::uint64_t{sizes.tokens} * 8);
    counts_ = layout.flat(std::uint64_t{sizes.cores} * sizes.all_experts * 4);
    order_ = layout.flat(std::uint64_t{sizes.tokens} * sizes.top_k * 4);
  }

  std::uint32_t block_rows() const { return is_.block_rows; }
  std::uint32_t region_rows() const { return is_.region_rows; }
  std::uint32_t blocks() const { return (is_.region_rows + is_.block_rows - 1) / is_.block_rows; }
  devices::HubRegion region(std::uint32_t half, std::uint32_t local) const {
    return {row(half, local, 0), is_.row_stride, is_.region_rows, word(half, local, 0),
            is_.block_rows};
  }
  fabric::Address row(std::uint32_t half, std::uint32_t local, std::uint32_t index) const {
    return rows_ + (place(half, local) * (is_.region_rows + 1) + index) * is_.row_stride;
  }
  /// Complete rows of a block.
  fabric::Address word(std::uint32_t half, std::uint32_t local, std::uint32_t block) const {
    return words_ + (place(half, local) * (blocks() + 1) + block) * 8;
  }
  /// One more than the rows that a source has sent to the expert; 0: it may send more.
  fabric::Address ended(std::uint32_t half, std::uint32_t local, std::uint32_t source) const {
    return ended_ + (place(half, local) * is_.devices + source) * 4;
  }
  fabric::Address result(std::uint32_t local, std::uint32_t index) const {
    return results_ + (std::uint64_t{local} * (is_.region_rows + 1) + index) * is_.row_stride;
  }
  /// Tiles of a block's projections that are done.
  fabric::Address up(std::uint32_t local, std::uint32_t block) const {
    return up_ + (std::uint64_t{local} * (blocks() + 1) + block) * 8;
  }
  fabric::Address down(std::uint32_t local, std::uint32_t block) const {
    return down_ + (std::uint64_t{local} * (blocks() + 1) + block) * 8;
  }
  fabric::Address staged(std::uint32_t token, std::uint32_t k) const {
    return staged_ + (std::uint64_t{token} * is_.top_k + k) * is_.row_stride;
  }
  /// Rows of the token that have come back.
  fabric::Address returned(std::uint32_t token) const {
    return returned_ + token * std::uint64_t{8};
  }
  /// Rows that a core has sent to each of all experts.
  fabric::Address counts(std::uint32_t core) const {
    return counts_ + std::uint64_t{core} * is_.all_experts * 4;
  }
  /// Of a token's k-th choice among this device's rows for that expert: for the check of rows
  /// alone.
  fabric::Address order(std::uint32_t token, std::uint32_t k) const {
    return order_ + (std::uint64_t{token} * is_.top_k + k) * 4;
  }

 private:
  std::uint64_t place(std::uint32_t half, std::uint32_t local) const {
    return std::uint64_t{half} * is_.experts + local;
  }

  Sizes is_;
  fabric::Address rows_;
  fabric::Address results_;
  fabric::Address staged_;
  fabric::Address words_;
  fabric::Address ended_;
  fabric::Address up_;
  fabric::Address down_;
  fabric::Address returned_;
  fabric::Address counts_;
  fabric::Address order_;
};

}  // namespace orrery::moe
