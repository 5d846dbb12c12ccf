// The dense single-process reference that every run is verified against (R10).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "moe/experts.h"
#include "moe/quantise.h"
#include "moe/routing_table.h"

namespace orrery::moe {

/// Working space of one thread, kept between rows.
struct ReferenceScratch {
  std::vector<std::uint16_t> input, expert_output;
  std::vector<std::int8_t> quantised;
  std::vector<float> sum;
};

/// The combined output of one token: the sum over ascending k, masked entries skipped, of
/// w_k * expert_k(x), in fp32 with products and sums rounded separately, then rounded to bf16. x is
/// the token's input row, quantised once and dequantised by each expert under Precision::kInt8. A
/// token without any unmasked entry gives zeros. `out`: hidden elements.
void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, ReferenceScratch& scratch, std::span<std::uint16_t> out);

}  // namespace orrery::moe
