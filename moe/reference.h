// The dense single-process reference that every run is verified against (R10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/experts.h"
#include "moe/quantise.h"
#include "moe/reduction_order.h"
#include "moe/routing_table.h"

namespace orrery::moe {

/// Working space of one thread, kept between rows.
struct ReferenceScratch {
  std::vector<std::uint16_t> input, expert_output;
  std::vector<std::int8_t> quantised;
  std::vector<std::byte> payload;
  std::vector<float> sum;
  std::vector<double> exact, magnitude;
};

/// The combined output of one token: the sum over ascending k, masked entries skipped, of
/// w_k * expert_k(x), in fp32 with products and sums rounded separately, then rounded to bf16. x is
/// the token's input row, quantised once and dequantised by each expert where `precision` is. A
/// token without any unmasked entry gives zeros. `out`: hidden elements.
void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, ReferenceScratch& scratch, std::span<std::uint16_t> out);

/// The same where rows are added as `order` has it.
void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, const ReductionOrder& order, ReferenceScratch& scratch,
                   std::span<std::uint16_t> out);

/// What the combined output of a token may be where its rows are added in any order: from `least`
/// to `most`, both as bf16 and for each element. The products w_k * expert_k(x) are rounded to fp32
/// as above; a sum of n of them, one after the other in fp32, is off the exact one by at most
/// g * sum |w_k * expert_k(x)| with g = (n-1)u / (1 - (n-1)u), u = 2^-24 (the usual bound of
/// recursive summation), and is then rounded once to bf16, which keeps order. `least`, `most`:
/// hidden elements.
void reference_bounds(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                      std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                      Precision precision, ReferenceScratch& scratch,
                      std::span<std::uint16_t> least, std::span<std::uint16_t> most);

}  // namespace orrery::moe
