#include "moe/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "moe/bf16.h"

namespace orrery::moe {
namespace {

std::vector<std::uint16_t> row_of(std::uint64_t seed, std::uint32_t iteration, std::uint32_t device,
                                  std::uint32_t token, std::size_t hidden) {
  std::vector<std::uint16_t> row(hidden, 0xffff);
  input_row(seed, iteration, device, token, row);
  return row;
}

TEST(Rows, AreAPureFunctionOfFourNumbers) {
  EXPECT_EQ(row_of(1, 2, 3, 4, 100), row_of(1, 2, 3, 4, 100));
  std::set<std::vector<std::uint16_t>> rows;
  for (std::uint32_t i = 10; i < 14; ++i) {
    rows.insert(row_of(i, 0, 0, 0, 100));
    rows.insert(row_of(0, i, 0, 0, 100));
    rows.insert(row_of(0, 0, i, 0, 100));
    rows.insert(row_of(0, 0, 0, i, 100));
  }
  EXPECT_EQ(rows.size(), 16u);
}

TEST(Rows, ValuesAreFiniteModerateAndOfBothSigns) {
  std::map<std::uint16_t, int> seen;
  int special = 0;
  for (std::uint32_t token = 0; token < 2000; ++token) {
    const auto row = row_of(7, 1, 2, token, 256);
    bool ordinary = true;
    int negative = 0;
    for (const std::uint16_t bits : row) {
      const float magnitude = std::fabs(bf16_to_float(bits));
      if (magnitude == 0 || magnitude == 1) ordinary = ordinary && row[0] != row[2];
      ASSERT_TRUE(magnitude == 0 || (magnitude >= 0.125f && magnitude < 4.0f)) << magnitude;
      negative += bits >> 15;
      ++seen[bits];
    }
    if (!ordinary) {
      ++special;
    } else {
      EXPECT_GT(negative, 60);
      EXPECT_LT(negative, 196);
    }
  }
  EXPECT_GT(special, 12);  // about one in 64
  EXPECT_LT(special, 60);
  EXPECT_GT(seen.size(), 1000u);
}

TEST(Rows, EverySpecialKindOccurs) {
  std::set<std::uint32_t> words;
  for (std::uint32_t token = 0; token < 4000; ++token) {
    const auto row = row_of(7, 0, 0, token, 8);
    if (row[0] == row[2] && row[0] == row[4] && row[1] == row[3] && row[1] == row[5]) {
      words.insert(std::uint32_t{row[1]} << 16 | row[0]);
    }
  }
  EXPECT_EQ(words,
            (std::set<std::uint32_t>{0x00000000, 0x3f800000, 0x80008000, 0x3f803f80, 0xbf803f80}));
}

TEST(Rows, AShorterRowIsAPrefix) {
  for (std::uint32_t token = 0; token < 200; ++token) {
    const auto whole = row_of(1, 0, 0, token, 101);
    for (const std::size_t hidden : {1u, 2u, 15u, 64u, 99u}) {
      auto prefix = whole;
      prefix.resize(hidden);
      ASSERT_EQ(row_of(1, 0, 0, token, hidden), prefix);
    }
  }
}

TEST(Rows, ThePublishedNumbersOfOneRowStay) {
  // A change here changes the output digest of every run.
  EXPECT_EQ(row_of(42, 1, 2, 3, 6),
            (std::vector<std::uint16_t>{49214, 48645, 16062, 48760, 16087, 16327}));
}

}  // namespace
}  // namespace orrery::moe
