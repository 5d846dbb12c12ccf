#include "moe/sent_rows.h"

#include <cstring>

#include "moe/rows.h"

namespace orrery::moe {

float encode_row(std::span<const std::uint16_t> row, Precision precision,
                 std::span<std::byte> out) {
  if (precision == Precision::kInt8) {
    return quantise_int8(row, {reinterpret_cast<std::int8_t*>(out.data()), row.size()});
  }
  if (precision == Precision::kNvfp4) return quantise_nvfp4(row, out);
  std::memcpy(out.data(), row.data(), row.size_bytes());
  return 0.0f;
}

SentRows::SentRows(const RoutingTable& table, std::uint64_t seed, std::uint32_t iteration,
                   std::uint32_t hidden, Precision precision, int threads)
    : table_(table), iteration_(iteration), rows_(table.total_tokens()) {
#pragma omp parallel num_threads(threads)
  {
    std::vector<std::uint16_t> row(hidden);
    std::vector<std::byte> payload(row_bytes(precision, hidden));
#pragma omp for schedule(dynamic)
    for (std::uint32_t device = 0; device < table.devices(); ++device) {
      for (std::uint32_t token = 0; token < table.tokens(device); ++token) {
        input_row(seed, iteration, device, token, row);
        const float scale = encode_row(row, precision, payload);
        rows_[table.first_token(device) + token] = SentRow::of(payload, scale);
      }
    }
  }
}

}  // namespace orrery::moe
