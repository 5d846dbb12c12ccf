#include "moe/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "emu/random.h"
#include "moe/bf16.h"
#include "moe/rows.h"

namespace orrery::moe {
namespace {

void expect_as_scalar_code(const std::vector<std::uint16_t>& row) {
  float amax = 0;
  for (const std::uint16_t bits : row) amax = std::max(amax, std::fabs(bf16_to_float(bits)));
  std::vector<std::int8_t> q(row.size(), 99);
  const float scale = quantise_int8(row, q);
  if (amax == 0) {
    EXPECT_EQ(scale, 0.0f);
    EXPECT_EQ(q, std::vector<std::int8_t>(row.size(), 0));
    return;
  }
  EXPECT_EQ(scale, amax / 127.0f);
  const float inverse = 127.0f / amax;
  for (std::size_t i = 0; i < row.size(); ++i) {
    // nearbyint rounds to nearest even by default.
    ASSERT_EQ(q[i], static_cast<int>(std::nearbyint(bf16_to_float(row[i]) * inverse)));
    ASSERT_GE(q[i], -127);
  }
  std::vector<float> back(row.size());
  dequantise_int8(q, scale, back);
  for (std::size_t i = 0; i < row.size(); ++i) {
    ASSERT_EQ(back[i], static_cast<float>(q[i]) * scale);
    ASSERT_NEAR(back[i], bf16_to_float(row[i]), scale * 0.5001f);
  }
}

TEST(Quantise, MatchesScalarCodeOnInputRows) {
  for (std::uint32_t token = 0; token < 300; ++token) {
    std::vector<std::uint16_t> row(1 + token);
    input_row(3, 0, 0, token, row);
    expect_as_scalar_code(row);
  }
}

TEST(Quantise, MatchesScalarCodeOnAnyMagnitude) {
  emu::RandomStream random(5, 0, "quantise test");
  for (std::uint32_t exponent = 8; exponent < 254; exponent += 3) {
    std::vector<std::uint16_t> row(77);
    for (std::uint16_t& bits : row) {
      bits =
          static_cast<std::uint16_t>((random.next() & 0x8000) | exponent << 7 | random.below(128));
    }
    expect_as_scalar_code(row);
  }
}

TEST(Quantise, TiesGoToEven) {
  // amax 127 makes q = x: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, and the same below zero.
  std::vector<std::uint16_t> row;
  for (const float x : {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127.0f}) {
    row.push_back(float_to_bf16(x));
  }
  std::vector<std::int8_t> q(row.size());
  EXPECT_EQ(quantise_int8(row, q), 1.0f);
  EXPECT_EQ(q, (std::vector<std::int8_t>{127, 0, 2, 2, 0, -2, -2, -127}));
}

TEST(Quantise, ZerosTinyAndNonFiniteRows) {
  std::vector<std::int8_t> q(4, 1);
  const std::vector<std::int8_t> zeros(4, 0);
  for (const std::uint16_t bits : {0x0000, 0x8000, 0x0001, 0x0100}) {
    EXPECT_EQ(quantise_int8(std::vector<std::uint16_t>(4, bits), q), 0.0f);
    EXPECT_EQ(q, zeros);
  }
  for (const std::uint16_t bits : {0x7f80, 0xff80, 0x7fc0}) {
    std::ranges::fill(q, std::int8_t{1});
    EXPECT_TRUE(std::isnan(quantise_int8(std::vector<std::uint16_t>{0x3f80, bits, 0, 0}, q)));
    EXPECT_EQ(q, zeros);
  }
  EXPECT_EQ(quantise_int8({}, {}), 0.0f);
}

}  // namespace
}  // namespace orrery::moe
