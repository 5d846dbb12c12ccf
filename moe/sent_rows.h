// The rows that the devices send in an iteration, regenerated, as what is needed to recognise them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emu/digest.h"
#include "moe/quantise.h"
#include "moe/routing_table.h"

namespace orrery::moe {

/// Writes the payload of an input row to `out` (row_bytes() of `precision`); returns its scale (0
/// for bf16).
float encode_row(std::span<const std::uint16_t> row, Precision precision, std::span<std::byte> out);

/// A payload and its scale, by a 128-bit digest of the bytes.
struct SentRow {
  emu::Digest128 digest;
  std::uint32_t scale_bits = 0;
  bool operator==(const SentRow&) const = default;

  static SentRow of(std::span<const std::byte> payload, float scale) {
    return {emu::digest_bytes_128(payload), std::bit_cast<std::uint32_t>(scale)};
  }
};

class SentRows {
 public:
  /// Regenerates every token of `table` once, on `threads` threads.
  SentRows(const RoutingTable& table, std::uint64_t seed, std::uint32_t iteration,
           std::uint32_t hidden, Precision precision, int threads);

  std::uint32_t iteration() const { return iteration_; }
  const SentRow& row(std::uint32_t device, std::uint32_t token) const {
    return rows_[table_.first_token(device) + token];
  }

 private:
  const RoutingTable& table_;
  std::uint32_t iteration_;
  std::vector<SentRow> rows_;
};

}  // namespace orrery::moe
