#include "moe/expert_popularity.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "emu/random.h"

namespace orrery::moe {
namespace {

constexpr double kLn2 = 0.693147180559945309417232121458;

/// ln(x) for x >= 1: halve into [1, 2), then 2 artanh((m-1)/(m+1)); z <= 1/3, so z^41 < 1e-19.
double natural_log(double x) {
  double halvings = 0;
  while (x >= 2) {
    x *= 0.5;
    halvings += 1;
  }
  const double z = (x - 1) / (x + 1);
  double sum = 0;
  for (int n = 41; n >= 1; n -= 2) sum = sum * (z * z) + 1.0 / n;
  return halvings * kLn2 + 2 * z * sum;
}

/// e^-x for x >= 0: the Taylor series on [0, ln 2), then halvings.
double exp_of_minus(double x) {
  double scale = 1;
  while (x >= kLn2) {
    x -= kLn2;
    scale *= 0.5;
  }
  double sum = 1;
  for (int n = 20; n >= 1; --n) sum = 1 - x / n * sum;
  return scale * sum;
}

std::uint64_t at_least_one(double weight) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(weight));
}

std::uint64_t weight_of_rank(const Gate& gate, std::uint32_t rank) {
  switch (gate.kind()) {
    case Gate::ZIPF:
      return at_least_one(zipf_weight(rank, gate.zipf_s()) * 0x1p40);
    case Gate::HOT_EXPERTS:
      return rank <= gate.hot_experts() ? at_least_one(gate.hot_factor() * 0x1p24)
                                        : std::uint64_t{1} << 24;
    default:
      return 1;
  }
}

}  // namespace

double zipf_weight(std::uint32_t rank, double s) { return exp_of_minus(s * natural_log(rank)); }

std::vector<std::uint64_t> expert_popularity(const Workload& workload, std::uint64_t seed) {
  const std::uint32_t experts = workload.experts();
  std::vector<std::uint32_t> by_rank(experts);
  std::iota(by_rank.begin(), by_rank.end(), 0u);
  emu::RandomStream stream(seed, 0, "gate.popularity");
  for (std::uint32_t i = experts; i > 1; --i) std::swap(by_rank[i - 1], by_rank[stream.below(i)]);

  std::vector<std::uint64_t> weights(experts);
  for (std::uint32_t i = 0; i < experts; ++i) {
    weights[by_rank[i]] = weight_of_rank(workload.gate(), i + 1);
  }
  return weights;
}

}  // namespace orrery::moe
