#include "moe/swiglu.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emu/random.h"
#include "moe/bf16.h"
#include "moe/reduce.h"

namespace orrery::moe {
namespace {

/// e^x for |x| <= 87: 2^n times a polynomial on [-ln2/2, ln2/2].
float exp_of(float x) {
  constexpr float kRounder = 12582912.0f;  // see quantise.cc
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  const float shifted = x * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The low bits of `shifted` hold n; moved into the exponent field they multiply by 2^n.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

std::vector<std::uint16_t> make_weights(const emu::RandomStream& stream, std::size_t rows,
                                        std::size_t columns) {
  // Uniform on [-a, a] has variance a^2 / 3; IEEE defines sqrt to the last bit.
  const float step = std::sqrt(3.0f / static_cast<float>(rows)) / 32768.0f;
  std::vector<std::uint16_t> weights(rows * columns);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto random = static_cast<std::int16_t>(stream.at(i) >> 48);
    weights[i] = float_to_bf16(static_cast<float>(random) * step);
  }
  return weights;
}

/// sums += x * weights, row by row in ascending order.
void multiply(std::span<const float> x, std::span<const std::uint16_t> weights,
              std::span<float> sums) {
  std::ranges::fill(sums, 0.0f);
  for (std::size_t row = 0; row < x.size(); ++row) {
    accumulate(sums, weights.subspan(row * sums.size(), sums.size()), x[row]);
  }
}

}  // namespace

float silu(float x) { return x / (1.0f + exp_of(std::clamp(-x, -87.0f, 87.0f))); }

SwiGlu::SwiGlu(std::uint64_t seed, std::uint32_t expert, std::uint32_t hidden,
               std::uint32_t intermediate)
    : hidden_(hidden),
      intermediate_(intermediate),
      gate_(make_weights({seed, expert, "swiglu.gate"}, hidden, intermediate)),
      up_(make_weights({seed, expert, "swiglu.up"}, hidden, intermediate)),
      down_(make_weights({seed, expert, "swiglu.down"}, intermediate, hidden)) {}

void SwiGlu::apply(std::span<const float> x, std::span<std::uint16_t> out,
                   std::span<float> scratch) const {
  const std::span<float> gated = scratch.subspan(0, intermediate_);
  const std::span<float> lifted = scratch.subspan(intermediate_, intermediate_);
  const std::span<float> sums = scratch.subspan(2 * std::size_t{intermediate_}, hidden_);
  multiply(x, gate_, gated);
  multiply(x, up_, lifted);
  for (std::size_t i = 0; i < gated.size(); ++i) gated[i] = silu(gated[i]) * lifted[i];
  multiply(gated, down_, sums);
  round_to_bf16(sums, out);
}

float SwiGlu::gate(std::size_t h, std::size_t i) const {
  return bf16_to_float(gate_[h * intermediate_ + i]);
}
float SwiGlu::up(std::size_t h, std::size_t i) const {
  return bf16_to_float(up_[h * intermediate_ + i]);
}
float SwiGlu::down(std::size_t i, std::size_t h) const {
  return bf16_to_float(down_[i * hidden_ + h]);
}

}  // namespace orrery::moe
