#include "emu/time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery::emu {
namespace {

TEST(Time, NanosecondsRoundToTheNearestPicosecond) {
  EXPECT_EQ(from_ns(0), 0);
  EXPECT_EQ(from_ns(1), 1'000);
  EXPECT_EQ(from_ns(464.5), 464'500);
  EXPECT_EQ(from_ns(0.0004), 0);
  EXPECT_EQ(from_ns(0.0005), 1);
  EXPECT_EQ(from_ns(1e9), 1'000'000'000'000);
  EXPECT_EQ(kMillisecond, from_ns(1e6));
  EXPECT_DOUBLE_EQ(to_us(1'234'567), 1.234567);
}

// ceil(bytes * 1000 / rate) picoseconds, the rate in GB/s.
TEST(Rate, SerialisationRoundsUp) {
  EXPECT_EQ(Rate::from_gb_per_s(1).serialisation(1), 1'000);
  EXPECT_EQ(Rate::from_gb_per_s(28).serialisation(4096), 146'286);  // 146,285.71…
  EXPECT_EQ(Rate::from_gb_per_s(28).serialisation(28), 1'000);
  EXPECT_EQ(Rate::from_gb_per_s(8.167).serialisation(4096), 501'531);  // 501,530.54…
  EXPECT_EQ(Rate::from_gb_per_s(50).serialisation(14'336), 286'720);
  EXPECT_EQ(Rate::from_gb_per_s(1e6).serialisation(1), 1);
  EXPECT_EQ(Rate::from_gb_per_s(3).serialisation(0), 0);
}

TEST(Rate, NoRateTakesNoTime) {
  EXPECT_TRUE(Rate().unlimited());
  EXPECT_TRUE(Rate::from_gb_per_s(0).unlimited());
  EXPECT_EQ(Rate().serialisation(1 << 30), 0);
}

TEST(Rate, DoesNotOverflowOnWholeMemories) {
  // A tebibyte at the slowest rate that a file may say.
  EXPECT_EQ(Rate::from_gb_per_s(0.001).serialisation(std::uint64_t{1} << 40),
            (Time{1} << 40) * 1'000'000);
  EXPECT_DOUBLE_EQ(Rate::from_gb_per_s(53.098).gb_per_s(), 53.098);
}

}  // namespace
}  // namespace orrery::emu
