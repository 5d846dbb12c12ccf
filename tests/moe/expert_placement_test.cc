#include "moe/expert_placement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace orrery::moe {
namespace {

TEST(ExpertPlacement, OwnsEachExpertOnceForAllSmallSizes) {
  for (std::uint32_t experts = 1; experts <= 40; ++experts) {
    for (std::uint32_t devices = 1; devices <= 40; ++devices) {
      const ExpertPlacement placement(experts, devices);
      std::uint32_t next = 0;
      std::uint32_t most = 0;
      for (std::uint32_t device = 0; device < devices; ++device) {
        ASSERT_EQ(placement.begin(device), next);
        for (; next < placement.end(device); ++next) {
          ASSERT_EQ(placement.owner(next), device) << experts << " on " << devices;
          ASSERT_EQ(placement.local_index(next), next - placement.begin(device));
        }
        most = std::max(most, placement.count(device));
      }
      ASSERT_EQ(next, experts);
      ASSERT_EQ(placement.max_local(), most) << experts << " on " << devices;
    }
  }
}

TEST(ExpertPlacement, ProductsBeyond32Bits) {
  const ExpertPlacement placement(65536, 1u << 20);
  EXPECT_EQ(placement.end((1u << 20) - 1), 65536u);
  EXPECT_EQ(placement.owner(65535), (1u << 20) - 1);
  EXPECT_EQ(placement.max_local(), 1u);
}

}  // namespace
}  // namespace orrery::moe
