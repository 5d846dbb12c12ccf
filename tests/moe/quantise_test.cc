#include "moe/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// --- nvfp4 ---

std::vector<std::byte> payload_for(std::size_t hidden) {
  return std::vector<std::byte>(row_bytes(Precision::kNvfp4, hidden), std::byte{0xff});
}

TEST(Nvfp4, E4m3IsTheNearestNumber) {
  EXPECT_EQ(e4m3_to_float(0x00), 0.0f);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_to_float(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_to_float(0x38), 1.0f);
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(e4m3_to_float(0xb8), -1.0f);
  for (std::uint32_t code = 0; code <= 0x7e; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    EXPECT_EQ(float_to_e4m3(value), code);
    if (code == 0x7e) break;
    const float next = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    ASSERT_LT(value, next);
    const float middle = value + (next - value) / 2;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9f)), code + 1);
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1);  // ties to even
  }
  for (const float large : {449.0f, 464.0f, 480.0f, 1e9f}) EXPECT_EQ(float_to_e4m3(large), 0x7e);
}

TEST(Nvfp4, E2m1IsTheNearestNumber) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_to_float(code), values[code]);
    EXPECT_EQ(e2m1_to_float(code | 8), -values[code]);
    EXPECT_EQ(float_to_e2m1(values[code]), code);
    EXPECT_EQ(float_to_e2m1(-values[code]), code | 8);
    if (code == 7) break;
    const float middle = (values[code] + values[code + 1]) / 2;
    EXPECT_EQ(float_to_e2m1(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_e2m1(std::nextafter(middle, 9.0f)), code + 1);
    EXPECT_EQ(float_to_e2m1(middle), code % 2 == 0 ? code : code + 1);
  }
  for (const float large : {6.5f, 7.0f, 1e30f}) EXPECT_EQ(float_to_e2m1(large), 7);
}

TEST(Nvfp4, PayloadIsNibblesThenBlockScales) {
  EXPECT_EQ(row_bytes(Precision::kNvfp4, 7168), 3584u + 448u);
  EXPECT_EQ(row_bytes(Precision::kNvfp4, 17), 9u + 2u);
  EXPECT_EQ(row_bytes(Precision::kNvfp4, 1), 2u);
  // The row's scale is 1: its amax is 448 * 6, and the second block's scale is 2.
  std::vector<std::uint16_t> row(18, 0);
  row[0] = float_to_bf16(2688.0f);
  row[1] = float_to_bf16(-448.0f);
  row[2] = float_to_bf16(-0.0f);
  row[16] = float_to_bf16(12.0f);
  row[17] = float_to_bf16(-3.0f);
  std::vector<std::byte> payload = payload_for(row.size());
  ASSERT_EQ(payload.size(), 11u);
  EXPECT_EQ(quantise_nvfp4(row, payload), 1.0f);
  EXPECT_EQ(payload[0], std::byte{0xa7});  // 6 and -1
  EXPECT_EQ(payload[1], std::byte{0x08});  // -0 and 0
  EXPECT_EQ(payload[8], std::byte{0xb7});  // 6 and -1.5
  EXPECT_EQ(payload[9], std::byte{0x7e});
  EXPECT_EQ(payload[10], std::byte{0x40});
  std::vector<float> x(row.size());
  dequantise_nvfp4(payload, 1.0f, x);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(x[i], bf16_to_float(row[i])) << i;
  EXPECT_TRUE(std::signbit(x[2]));
  EXPECT_FALSE(std::signbit(x[3]));
}

TEST(Nvfp4, NearestOfAllItCouldSay) {
  for (std::uint32_t token = 0; token < 300; ++token) {
    std::vector<std::uint16_t> row(1 + token);
    input_row(3, 0, 0, token, row);
    std::vector<std::byte> payload = payload_for(row.size());
    const float scale = quantise_nvfp4(row, payload);
    ASSERT_FALSE(std::isnan(scale));
    std::vector<float> x(row.size());
    dequantise_nvfp4(payload, scale, x);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float in = bf16_to_float(row[i]);
      const std::size_t block = i / kNvfp4Block;
      float most = 0;
      for (std::size_t j = 0; j < row.size(); ++j) {
        if (j / kNvfp4Block == block) most = std::max(most, std::fabs(bf16_to_float(row[j])));
      }
      ASSERT_FALSE(std::isnan(x[i]));
      // Half of the largest step, 2 of 6, and a rounded scale of the block: up to 1/16 off.
      ASSERT_LE(std::fabs(x[i] - in), most * (1.0f / 6 + 1.0f / 15));
      if (scale != 0) {
        ASSERT_EQ(std::signbit(x[i]), std::signbit(in));
      }
    }
  }
}

TEST(Nvfp4, ZerosTinyAndNonFiniteRows) {
  for (const std::uint16_t bits : {0x0000, 0x8000, 0x0001, 0x0100}) {
    std::vector<std::byte> payload = payload_for(20);
    EXPECT_EQ(quantise_nvfp4(std::vector<std::uint16_t>(20, bits), payload), 0.0f);
    EXPECT_EQ(payload, std::vector<std::byte>(payload.size(), std::byte{0}));
    std::vector<float> x(20, 1.0f);
    dequantise_nvfp4(payload, 0.0f, x);
    EXPECT_EQ(x, std::vector<float>(20, 0.0f));
  }
  for (const std::uint16_t bits : {0x7f80, 0xff80, 0x7fc0}) {
    std::vector<std::byte> payload = payload_for(4);
    EXPECT_TRUE(
        std::isnan(quantise_nvfp4(std::vector<std::uint16_t>{0x3f80, bits, 0, 0}, payload)));
    EXPECT_EQ(payload, std::vector<std::byte>(payload.size(), std::byte{0}));
  }
  // A block far below the row's amax: its scale is no more than a zero, and so are its elements.
  std::vector<std::uint16_t> row(32, float_to_bf16(-0x1p-30f));
  row[0] = float_to_bf16(1.0f);
  std::vector<std::byte> payload = payload_for(32);
  const float scale = quantise_nvfp4(row, payload);
  std::vector<float> x(32);
  dequantise_nvfp4(payload, scale, x);
  EXPECT_NEAR(x[0], 1.0f, 1e-6f);
  for (int i = 16; i < 32; ++i) EXPECT_EQ(x[static_cast<std::size_t>(i)], 0.0f);
}

}  // namespace
}  // namespace orrery::moe
