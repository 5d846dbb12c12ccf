#include "moe/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "moe/reduce.h"
#include "moe/rows.h"

namespace orrery::moe {

namespace {

// Calls add(row, weight) for each unmasked entry of the token, k ascending, with its expert's
// output.
template <typename Add>
void for_each_output(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                     std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                     Precision precision, ReferenceScratch& scratch, Add&& add) {
  const std::size_t hidden = experts.hidden();
  scratch.input.resize(hidden);
  scratch.expert_output.resize(hidden);
  scratch.quantised.resize(hidden);

  input_row(seed, iteration, device, token, scratch.input);
  float scale = 0;
  if (precision == Precision::kInt8) scale = quantise_int8(scratch.input, scratch.quantised);
  if (precision == Precision::kNvfp4) {
    scratch.payload.resize(row_bytes(precision, hidden));
    scale = quantise_nvfp4(scratch.input, scratch.payload);
  }

  const std::span<const std::int32_t> ids = table.ids(device, token);
  const std::span<const float> weights = table.weights(device, token);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[k]);
    if (precision == Precision::kInt8) {
      experts.apply(expert, scratch.quantised, scale, scratch.expert_output);
    } else if (precision == Precision::kNvfp4) {
      experts.apply(expert, precision, scratch.payload, scale, scratch.expert_output);
    } else {
      experts.apply(expert, scratch.input, scratch.expert_output);
    }
    add(std::span<const std::uint16_t>(scratch.expert_output), weights[k]);
  }
}

}  // namespace

void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, ReferenceScratch& scratch, std::span<std::uint16_t> out) {
  scratch.sum.assign(experts.hidden(), 0.0f);
  for_each_output(table, experts, seed, iteration, device, token, precision, scratch,
                  [&](std::span<const std::uint16_t> row, float weight) {
                    accumulate(scratch.sum, row, weight);
                  });
  round_to_bf16(scratch.sum, out);
}

void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, const ReductionOrder& order, ReferenceScratch& scratch,
                   std::span<std::uint16_t> out) {
  if (order.is_plain()) {
    reference_row(table, experts, seed, iteration, device, token, precision, scratch, out);
    return;
  }
  using Row = std::vector<std::uint16_t>;
  std::vector<ReductionOrder::Item<Row>> items;
  const std::span<const std::int32_t> ids = table.ids(device, token);
  std::uint32_t k = 0;
  for_each_output(table, experts, seed, iteration, device, token, precision, scratch,
                  [&](std::span<const std::uint16_t> row, float weight) {
                    while (ids[k] < 0) ++k;
                    const auto expert = static_cast<std::uint32_t>(ids[k]);
                    items.push_back({expert, weight, Row(row.begin(), row.end()), k++});
                  });
  const auto add = [&](std::span<const ReductionOrder::Item<Row>> rows) {
    scratch.sum.assign(experts.hidden(), 0.0f);
    for (const auto& each : rows) accumulate(scratch.sum, each.row, each.weight);
    Row sum(experts.hidden());
    round_to_bf16(scratch.sum, sum);
    return sum;
  };
  const Row sum = order.sum<Row>(std::move(items), add);
  std::copy(sum.begin(), sum.end(), out.begin());
}

void reference_bounds(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                      std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                      Precision precision, ReferenceScratch& scratch,
                      std::span<std::uint16_t> least, std::span<std::uint16_t> most) {
  constexpr double kUnit = 1.0 / (1 << 24);
  const std::size_t hidden = experts.hidden();
  scratch.exact.assign(hidden, 0.0);
  scratch.magnitude.assign(hidden, 0.0);
  int terms = 0;
  for_each_output(table, experts, seed, iteration, device, token, precision, scratch,
                  [&](std::span<const std::uint16_t> row, float weight) {
                    ++terms;
                    for (std::size_t i = 0; i < hidden; ++i) {
                      const float product = weight * bf16_to_float(row[i]);
                      scratch.exact[i] += product;
                      scratch.magnitude[i] += std::abs(product);
                    }
                  });
  // A sum in fp32 is a number that fp32 has, so rounding the ends to fp32 leaves none out. The last
  // factor is for this function's own sums.
  const double units = std::max(terms - 1, 0) * kUnit;
  const double share = units / (1 - units) * (1 + kUnit);
  for (std::size_t i = 0; i < hidden; ++i) {
    const double off = share * scratch.magnitude[i];
    least[i] = float_to_bf16(static_cast<float>(scratch.exact[i] - off));
    most[i] = float_to_bf16(static_cast<float>(scratch.exact[i] + off));
  }
}

}  // namespace orrery::moe
