#include "moe/experts.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "moe/bf16.h"
#include "moe/cheap_transform.h"

namespace orrery::moe {

struct Experts::Slot {
  std::once_flag once;
  std::unique_ptr<SwiGlu> network;
};

bool uses_real_ffn(const Workload& workload, const RoutingTable& table,
                   const ExpertPlacement& placement) {
  constexpr double kMaxWeightBytes = 512.0 * 1024 * 1024;
  const double weights = double{3} * workload.hidden() * workload.expert_intermediate();
  if (weights * 2 * workload.experts() > kMaxWeightBytes) return false;

  const std::vector<std::uint64_t> rows = table.counts();
  std::uint64_t most = 0;
  for (std::uint32_t device = 0; device < placement.devices(); ++device) {
    std::uint64_t received = 0;
    for (std::uint32_t expert = placement.begin(device); expert < placement.end(device); ++expert) {
      received += rows[expert];
    }
    most = std::max(most, received);
  }
  const double volume =
      static_cast<double>(most) * workload.hidden() * workload.expert_intermediate();
  return volume <= workload.real_ffn_limit();
}

std::uint64_t ffn_flops(const Workload& workload) {
  return std::uint64_t{6} * workload.hidden() * workload.expert_intermediate();
}

Experts::Experts(const Workload& workload, std::uint64_t seed, ExpertKind kind)
    : seed_(seed),
      hidden_(workload.hidden()),
      intermediate_(workload.expert_intermediate()),
      kind_(kind) {
  if (kind == ExpertKind::kSwiGlu) slots_ = std::make_unique<Slot[]>(workload.experts());
}

const SwiGlu& Experts::network(std::uint32_t expert) const {
  Slot& slot = slots_[expert];
  std::call_once(slot.once, [&] {
    slot.network = std::make_unique<SwiGlu>(seed_, expert, hidden_, intermediate_);
  });
  return *slot.network;
}

void Experts::apply(std::uint32_t expert, std::span<const std::int8_t> q, float scale,
                    std::span<std::uint16_t> out) const {
  if (kind_ == ExpertKind::kCheapTransform) return cheap_transform(seed_, expert, q, scale, out);
  const SwiGlu& swiglu = network(expert);
  std::vector<float> x(hidden_), scratch(swiglu.scratch_floats());
  dequantise_int8(q, scale, x);
  swiglu.apply(x, out, scratch);
}

void Experts::apply(std::uint32_t expert, std::span<const std::uint16_t> row,
                    std::span<std::uint16_t> out) const {
  if (kind_ == ExpertKind::kCheapTransform) return cheap_transform(seed_, expert, row, out);
  const SwiGlu& swiglu = network(expert);
  std::vector<float> x(hidden_), scratch(swiglu.scratch_floats());
  std::ranges::transform(row, x.begin(), bf16_to_float);
  swiglu.apply(x, out, scratch);
}

void Experts::apply(std::uint32_t expert, Precision precision, std::span<const std::byte> payload,
                    float scale, std::span<std::uint16_t> out) const {
  switch (precision) {
    case Precision::kInt8:
      return apply(expert, {reinterpret_cast<const std::int8_t*>(payload.data()), payload.size()},
                   scale, out);
    case Precision::kBf16:
      return apply(expert, {reinterpret_cast<const std::uint16_t*>(payload.data()), hidden_}, out);
    case Precision::kNvfp4:
      break;
  }
  thread_local std::vector<float> x;
  x.resize(hidden_);
  dequantise_nvfp4(payload, scale, x);
  if (kind_ == ExpertKind::kCheapTransform) {
    return cheap_transform(seed_, expert, payload, scale, x, out);
  }
  const SwiGlu& swiglu = network(expert);
  std::vector<float> scratch(swiglu.scratch_floats());
  swiglu.apply(x, out, scratch);
}

void Experts::apply(std::uint32_t expert, StridedRows<const std::int8_t> q,
                    StridedRows<const float> scales, StridedRows<std::uint16_t> out,
                    int num_threads) const {
#pragma omp parallel for num_threads(num_threads) if (num_threads > 1)
  for (std::size_t row = 0; row < q.count; ++row) {
    apply(expert, q[row], scales[row][0], out[row]);
  }
}

void Experts::apply(std::uint32_t expert, StridedRows<const std::uint16_t> rows,
                    StridedRows<std::uint16_t> out, int num_threads) const {
#pragma omp parallel for num_threads(num_threads) if (num_threads > 1)
  for (std::size_t row = 0; row < rows.count; ++row) apply(expert, rows[row], out[row]);
}

}  // namespace orrery::moe
