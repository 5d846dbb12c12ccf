#include "moe/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery::moe {
namespace {

using testing::ElementsAre;

TEST(Locations, SecondChoicesFollowAllFirstOnes) {
  const std::int32_t ids[] = {2, 1,   // token 0
                              1, 2,   // token 1
                              2, 2};  // token 2
  EXPECT_THAT(locations(ids, 2, 0, 3), ElementsAre(0, 1, 0, 2, 1, 3));
}

TEST(Locations, PassOverMaskedEntriesAndOtherExperts) {
  const std::int32_t ids[] = {2, -1, 1, 2, -1, -1, 2, 0};
  EXPECT_THAT(locations(ids, 2, 0, 3), ElementsAre(0, 0, 0, 2, 0, 0, 1, 0));
  EXPECT_THAT(locations(ids, 2, 1, 2), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(locations({}, 2, 0, 3), ElementsAre());
}

}  // namespace
}  // namespace orrery::moe
