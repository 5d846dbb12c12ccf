#include "moe/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "emu/random.h"
#include "moe/reduce.h"

namespace orrery::moe {
namespace {

/// Round to nearest even by looking at both neighbours, in double precision.
std::uint16_t nearest(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto below = static_cast<std::uint16_t>(bits >> 16);  // towards zero
  if ((bits & 0xffff) == 0) return below;
  const auto above = static_cast<std::uint16_t>(below + 1);
  // One step beyond the largest finite value counts as 2^128, as if the exponent went on.
  const bool overflow = (above & 0x7fff) == 0x7f80;
  const double high = overflow ? std::copysign(std::ldexp(1.0, 128), value) : bf16_to_float(above);
  const double to_below = std::fabs(double{value} - bf16_to_float(below));
  const double to_above = std::fabs(double{value} - high);
  if (to_below != to_above) return to_below < to_above ? below : above;
  return below % 2 == 0 ? below : above;
}

TEST(Bf16, EveryValueSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto bf16 = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(bf16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      ASSERT_EQ(float_to_bf16(value), bf16);
    }
  }
}

TEST(Bf16, RoundsToNearestEvenAroundEveryValue) {
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
      } else {
        ASSERT_EQ(float_to_bf16(value), nearest(value)) << std::hex << high << " " << low;
      }
    }
  }
}

TEST(Bf16, RoundsRandomFloats) {
  emu::RandomStream random(1, 0, "bf16 test");
  for (int i = 0; i < 1000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_bf16(value), nearest(value)) << value;
  }
}

TEST(Bf16, KeepsSignsInfinitiesAndNan) {
  EXPECT_EQ(float_to_bf16(0.0f), 0x0000);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose upper half alone would read as infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Reduce, ProductAndSumRoundSeparately) {
  // With x = 1 + 2^-7, x * 1 / 3 rounded and then added differs from a fused multiply-add
  // somewhere.
  std::vector<std::uint16_t> row(1000);
  std::vector<float> acc(row.size()), expected(row.size());
  emu::RandomStream random(2, 0, "reduce test");
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<std::uint16_t>(0x3f80 + random.below(128));
    acc[i] = expected[i] = static_cast<float>(random.below(1000)) / 997.0f;
  }
  const float weight = 1.0f / 3.0f;
  std::size_t fused_differs = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const volatile float product = weight * bf16_to_float(row[i]);
    if (std::fmaf(weight, bf16_to_float(row[i]), expected[i]) != expected[i] + product) {
      ++fused_differs;
    }
    expected[i] = expected[i] + product;
  }
  EXPECT_GT(fused_differs, 0u);
  accumulate(acc, row, weight);
  EXPECT_EQ(acc, expected);
  std::vector<std::uint16_t> rounded(row.size());
  round_to_bf16(acc, rounded);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(rounded[i], nearest(expected[i]));
}

}  // namespace
}  // namespace orrery::moe
