#include "moe/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include "moe/bf16.h"
#include "moe/gate.h"
#include "moe/quantise.h"
#include "moe/rows.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

using Row = std::vector<std::uint16_t>;

struct Quantised {
  std::vector<std::int8_t> q;
  float scale;
};

Row input(std::uint32_t token, std::size_t hidden) {
  Row row(hidden);
  input_row(1, 0, 0, token, row);
  return row;
}

Quantised quantised(std::uint32_t token, std::size_t hidden) {
  Quantised out{std::vector<std::int8_t>(hidden), 0};
  out.scale = quantise_int8(input(token, hidden), out.q);
  return out;
}

Row apply(const Experts& experts, std::uint32_t expert, const Quantised& row) {
  Row out(experts.hidden());
  experts.apply(expert, row.q, row.scale, out);
  return out;
}

Row apply(const Experts& experts, std::uint32_t expert, const Row& row) {
  Row out(experts.hidden());
  experts.apply(expert, row, out);
  return out;
}

std::size_t differences(const Row& a, const Row& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

class EveryKind : public testing::TestWithParam<ExpertKind> {
 protected:
  Experts make(std::uint32_t hidden, std::uint64_t seed = 5) const {
    return Experts(make_workload(16, 2, 4, hidden, 48), seed, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Experts, EveryKind,
                         testing::Values(ExpertKind::kSwiGlu, ExpertKind::kCheapTransform),
                         [](const auto& kind) {
                           return kind.param == ExpertKind::kSwiGlu ? "SwiGlu" : "CheapTransform";
                         });

TEST_P(EveryKind, ExpertsSeedsAndRowsDiffer) {
  const Experts experts = make(64);
  std::set<Row> outputs;
  for (std::uint32_t expert = 0; expert < 16; ++expert) {
    for (std::uint32_t token = 0; token < 8; ++token) {
      outputs.insert(apply(experts, expert, quantised(token, 64)));
      outputs.insert(apply(experts, expert, input(token, 64)));
    }
  }
  EXPECT_EQ(outputs.size(), 16u * 8 * 2);
  EXPECT_NE(apply(make(64, 6), 0, input(0, 64)), apply(experts, 0, input(0, 64)));
}

TEST_P(EveryKind, OutputsAreFiniteAndModerate) {
  const Experts experts = make(97);
  for (std::uint32_t token = 0; token < 500; ++token) {
    for (const std::uint16_t bits : apply(experts, token % 16, quantised(token, 97))) {
      ASSERT_LT(std::fabs(bf16_to_float(bits)), 40.0f);
    }
    for (const std::uint16_t bits : apply(experts, token % 16, input(token, 97))) {
      ASSERT_LT(std::fabs(bf16_to_float(bits)), 40.0f);
    }
  }
}

TEST_P(EveryKind, AnswersDoNotDependOnBatchOrThreads) {
  constexpr std::size_t kRows = 37, kHidden = 80, kStride = 128;
  const Experts experts = make(kHidden);
  // Rows as they lie in an algorithm's window: int8 elements, then the scale.
  std::vector<std::byte> window(kRows * kStride);
  const StridedRows<std::int8_t> q{reinterpret_cast<std::int8_t*>(window.data()), kStride, kRows,
                                   kHidden};
  const StridedRows<float> scales{reinterpret_cast<float*>(window.data() + kHidden), kStride, kRows,
                                  1};
  Row bf16(kRows * kHidden);
  const StridedRows<std::uint16_t> inputs{bf16.data(), 2 * kHidden, kRows, kHidden};
  for (std::size_t row = 0; row < kRows; ++row) {
    input_row(1, 0, 0, static_cast<std::uint32_t>(row), inputs[row]);
    scales[row][0] = quantise_int8(inputs[row], q[row]);
  }
  for (const int threads : {1, 2, 3}) {
    Row out(kRows * kHidden), out_bf16(kRows * kHidden);
    const StridedRows<std::uint16_t> to{out.data(), 2 * kHidden, kRows, kHidden};
    const StridedRows<std::uint16_t> to_bf16{out_bf16.data(), 2 * kHidden, kRows, kHidden};
    experts.apply(3, {q.first, kStride, kRows, kHidden}, {scales.first, kStride, kRows, 1}, to,
                  threads);
    experts.apply(3, {inputs.first, 2 * kHidden, kRows, kHidden}, to_bf16, threads);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      EXPECT_TRUE(std::ranges::equal(to[row], apply(experts, 3, quantised(row, kHidden))));
      EXPECT_TRUE(std::ranges::equal(to_bf16[row], apply(experts, 3, input(row, kHidden))));
    }
  }
}

TEST(CheapTransform, EveryByteChangesNearlyAllOutputs) {
  const std::size_t hidden = 300;
  const Experts experts(make_workload(8, 2, 4, hidden), 5, ExpertKind::kCheapTransform);
  const Quantised row = quantised(2, hidden);
  const Row out = apply(experts, 1, row);
  for (std::size_t i = 0; i < hidden; ++i) {
    Quantised torn = row;
    torn.q[i] = static_cast<std::int8_t>(torn.q[i] ^ 1);
    ASSERT_GT(differences(apply(experts, 1, torn), out), hidden * 9 / 10) << i;
  }
  Quantised scaled = row;
  scaled.scale = std::nextafter(row.scale, 1.0f);
  EXPECT_GT(differences(apply(experts, 1, scaled), out), hidden * 9 / 10);

  const Row plain = input(2, hidden);
  const Row plain_out = apply(experts, 1, plain);
  for (std::size_t i = 0; i < 2 * hidden; ++i) {
    Row torn = plain;
    torn[i / 2] = static_cast<std::uint16_t>(torn[i / 2] ^ (i % 2 == 0 ? 1 : 0x0100));
    ASSERT_GT(differences(apply(experts, 1, torn), plain_out), hidden * 9 / 10) << i;
  }
}

TEST(CheapTransform, OrderOfBytesMatters) {
  const Experts experts(make_workload(8, 2, 4, 64), 5, ExpertKind::kCheapTransform);
  Quantised row = quantised(2, 64);
  const Row out = apply(experts, 1, row);
  ASSERT_NE(row.q[10], row.q[40]);
  std::swap(row.q[10], row.q[40]);
  EXPECT_GT(differences(apply(experts, 1, row), out), 57u);
}

TEST(CheapTransform, ThePublishedNumbersOfOneRowStay) {
  const Experts experts(make_workload(8, 2, 4, 4), 42, ExpertKind::kCheapTransform);
  // A change here changes the output digest of every run.
  EXPECT_EQ(apply(experts, 3, Row{0x3f80, 0xc000, 0x0000, 0x4040}),
            (Row{16191, 49078, 16117, 49110}));
}

TEST(SwiGlu, MatchesDoublePrecision) {
  const std::uint32_t hidden = 96, intermediate = 80;
  const SwiGlu swiglu(7, 3, hidden, intermediate);
  std::vector<float> scratch(swiglu.scratch_floats());
  for (std::uint32_t token = 0; token < 100; ++token) {
    const Row row = input(token, hidden);
    std::vector<float> x(hidden);
    std::ranges::transform(row, x.begin(), bf16_to_float);
    Row out(hidden);
    swiglu.apply(x, out, scratch);

    std::vector<double> gated(intermediate);
    for (std::size_t i = 0; i < intermediate; ++i) {
      double gate = 0, up = 0;
      for (std::size_t h = 0; h < hidden; ++h) {
        gate += double{x[h]} * swiglu.gate(h, i);
        up += double{x[h]} * swiglu.up(h, i);
      }
      gated[i] = gate / (1 + std::exp(-gate)) * up;
    }
    for (std::size_t h = 0; h < hidden; ++h) {
      double sum = 0;
      for (std::size_t i = 0; i < intermediate; ++i) sum += gated[i] * swiglu.down(i, h);
      // Half a unit in the last place of bf16, and fp32 sums of about a hundred terms.
      ASSERT_NEAR(bf16_to_float(out[h]), sum, std::fabs(sum) / 256 + 2e-5) << token << " " << h;
    }
  }
}

TEST(SwiGlu, OutputsAreAboutAsLargeAsInputs) {
  const SwiGlu swiglu(7, 3, 512, 256);
  std::vector<float> x(512), scratch(swiglu.scratch_floats());
  const Row row = input(1, 512);
  std::ranges::transform(row, x.begin(), bf16_to_float);
  Row out(512);
  swiglu.apply(x, out, scratch);
  double square = 0;
  for (const std::uint16_t bits : out) square += std::pow(bf16_to_float(bits), 2);
  EXPECT_GT(std::sqrt(square / 512), 0.1);
  EXPECT_LT(std::sqrt(square / 512), 4.0);
}

TEST(SwiGlu, SiluMatchesLibm) {
  for (double x = -120; x <= 120; x += 0.0137) {
    const double exact = x / (1 + std::exp(-x));
    ASSERT_NEAR(silu(static_cast<float>(x)), exact, 4e-7 * std::fabs(x)) << x;
  }
  EXPECT_EQ(silu(0.0f), 0.0f);
}

TEST(Experts, RealNetworkWhereAffordable) {
  Workload workload = make_workload(8, 2, 4);
  const ExpertPlacement placement(8, 4);
  const RoutingTable table = route(workload, 4, 1, 0);
  EXPECT_TRUE(uses_real_ffn(workload, table, placement));
  std::vector<std::uint64_t> received(4);
  const auto rows = table.counts();
  for (std::uint32_t expert = 0; expert < 8; ++expert) {
    received[placement.owner(expert)] += rows[expert];
  }
  const double volume = static_cast<double>(*std::ranges::max_element(received)) * 64 * 32;
  workload.set_real_ffn_limit(volume);
  EXPECT_TRUE(uses_real_ffn(workload, table, placement));
  workload.set_real_ffn_limit(volume - 1);
  EXPECT_FALSE(uses_real_ffn(workload, table, placement));

  // Few tokens but weights that would not fit the memory.
  Workload large = make_workload(256, 8, 1, 7168, 2048);
  large.set_real_ffn_limit(1e15);
  EXPECT_FALSE(uses_real_ffn(large, route(large, 4, 1, 0), ExpertPlacement(256, 4)));
}

TEST(Experts, ModelledFlops) {
  EXPECT_EQ(ffn_flops(make_workload(256, 8, 1, 7168, 2048)), 88080384u);
}

}  // namespace
}  // namespace orrery::moe
