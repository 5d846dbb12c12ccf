// One expert's feed-forward network for real: down(silu(gate(x)) * up(x)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery::moe {

/// Weights as bf16, a pure function of (seed, expert): uniform with variance 1/fan-in, so that
/// outputs stay about as large as inputs. Transposed, input index first, because the kernel adds
/// one input element to all outputs at a time: it vectorises without reordering any sum.
class SwiGlu {
 public:
  SwiGlu(std::uint64_t seed, std::uint32_t expert, std::uint32_t hidden,
         std::uint32_t intermediate);

  /// Floats of working space that apply() needs.
  std::size_t scratch_floats() const { return 2 * std::size_t{intermediate_} + hidden_; }

  /// `x` and `out` are rows of `hidden`. Sums run over ascending input index in fp32, so a row's
  /// result depends on that row alone (batch-invariant). `scratch`: scratch_floats() of them.
  void apply(std::span<const float> x, std::span<std::uint16_t> out,
             std::span<float> scratch) const;

  float gate(std::size_t h, std::size_t i) const;
  float up(std::size_t h, std::size_t i) const;
  float down(std::size_t i, std::size_t h) const;

 private:
  std::uint32_t hidden_;
  std::uint32_t intermediate_;
  std::vector<std::uint16_t> gate_, up_;  // [hidden][intermediate]
  std::vector<std::uint16_t> down_;       // [intermediate][hidden]
};

/// x / (1 + e^-x) with + - * / alone: the same bits on every host, within 4e-7 of the true value
/// relative to |x|.
float silu(float x);

}  // namespace orrery::moe
