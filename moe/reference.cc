#include "moe/reference.h"

#include "moe/reduce.h"
#include "moe/rows.h"

namespace orrery::moe {

void reference_row(const RoutingTable& table, const Experts& experts, std::uint64_t seed,
                   std::uint32_t iteration, std::uint32_t device, std::uint32_t token,
                   Precision precision, ReferenceScratch& scratch, std::span<std::uint16_t> out) {
  const std::size_t hidden = experts.hidden();
  scratch.input.resize(hidden);
  scratch.expert_output.resize(hidden);
  scratch.quantised.resize(hidden);
  scratch.sum.assign(hidden, 0.0f);

  input_row(seed, iteration, device, token, scratch.input);
  float scale = 0;
  if (precision == Precision::kInt8) scale = quantise_int8(scratch.input, scratch.quantised);

  const std::span<const std::int32_t> ids = table.ids(device, token);
  const std::span<const float> weights = table.weights(device, token);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[k]);
    if (precision == Precision::kInt8) {
      experts.apply(expert, scratch.quantised, scale, scratch.expert_output);
    } else {
      experts.apply(expert, scratch.input, scratch.expert_output);
    }
    accumulate(scratch.sum, scratch.expert_output, weights[k]);
  }
  round_to_bf16(scratch.sum, out);
}

}  // namespace orrery::moe
