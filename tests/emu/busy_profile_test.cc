#include "emu/busy_profile.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "emu/random.h"

namespace orrery::emu {
namespace {

Time sum(const BusyProfile& profile) {
  return std::accumulate(profile.buckets().begin(), profile.buckets().end(), Time{0});
}

TEST(BusyProfile, SplitsAnIntervalOverItsBuckets) {
  BusyProfile profile;
  profile.add(500, 2250);
  EXPECT_EQ(profile.width(), 1000);
  EXPECT_EQ(profile.buckets(), (std::vector<Time>{500, 1000, 250}));
  profile.add(2000, 2250);
  EXPECT_EQ(profile.buckets(), (std::vector<Time>{500, 1000, 500}));
}

TEST(BusyProfile, TakesNothingFromAnEmptyInterval) {
  BusyProfile profile;
  profile.add(700, 700);
  EXPECT_TRUE(profile.buckets().empty());
}

TEST(BusyProfile, WidensInsteadOfGrowing) {
  BusyProfile profile;
  profile.add(0, 300);
  const Time far = 3 * kMillisecond;
  profile.add(far - 10, far);
  EXPECT_LE(profile.buckets().size(), BusyProfile::kMaxBuckets);
  EXPECT_GE(static_cast<Time>(profile.buckets().size()) * profile.width(), far);
  EXPECT_EQ(profile.buckets().front(), 300);
  EXPECT_EQ(profile.buckets().back(), 10);
  EXPECT_EQ(sum(profile), 310);
}

// Cut in two at random, in any order, and put together: the same profile.
TEST(BusyProfile, DoesNotDependOnHowItWasPutTogether) {
  const RandomStream random(1, 2, "busy");
  BusyProfile whole;
  BusyProfile parts[2];
  Time total = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const std::uint64_t n = i < 1500 ? i : 4499 - i;  // the parts see the times in another order
    const auto start = static_cast<Time>(random.at(2 * n) % 5'000'000);
    const auto end = start + static_cast<Time>(random.at(2 * n + 1) % 9000);
    total += end - start;
    parts[n % 2].add(start, end);
  }
  for (std::uint64_t n = 3000; n-- > 0;) {
    const auto start = static_cast<Time>(random.at(2 * n) % 5'000'000);
    whole.add(start, start + static_cast<Time>(random.at(2 * n + 1) % 9000));
  }
  parts[0].add(parts[1]);
  EXPECT_EQ(parts[0].width(), whole.width());
  EXPECT_EQ(parts[0].buckets(), whole.buckets());
  EXPECT_EQ(sum(whole), total);
}

TEST(BusyProfile, AddsProfilesOfDifferentWidths) {
  BusyProfile fine;
  fine.add(0, 400);
  BusyProfile coarse;
  coarse.add(0, 2 * static_cast<Time>(BusyProfile::kMaxBuckets) * BusyProfile::kFirstWidth);
  BusyProfile both = fine;
  both.add(coarse);
  coarse.add(fine);
  EXPECT_EQ(both.width(), coarse.width());
  EXPECT_EQ(both.buckets(), coarse.buckets());
}

}  // namespace
}  // namespace orrery::emu
