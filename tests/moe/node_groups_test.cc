#include "moe/node_groups.h"

#include <gtest/gtest.h>

namespace orrery::moe {
namespace {

TEST(NodeGroups, AreNumberedByTheirFirstDevices) {
  const NodeGroups groups({7, 3, 7, 3, 3, 7});
  EXPECT_EQ(groups.groups(), 2u);
  EXPECT_EQ(groups.members(), 3u);
  EXPECT_EQ(groups.group_of(2), 0u);
  EXPECT_EQ(groups.group_of(4), 1u);
  EXPECT_EQ(groups.member_of(5), 2u);
  for (std::uint32_t device = 0; device < 6; ++device) {
    EXPECT_EQ(groups.device(groups.group_of(device), groups.member_of(device)), device);
  }
}

TEST(NodeGroups, OfConsecutiveDevices) {
  const NodeGroups groups = NodeGroups::consecutive(6, 2);
  EXPECT_EQ(groups.groups(), 3u);
  EXPECT_EQ(groups.device(1, 1), 3u);
  EXPECT_EQ(NodeGroups::consecutive(6, 4).groups(), 1u);
}

TEST(NodeGroups, AreOneWhereTheyWouldNotMakeTwoLevels) {
  for (const std::vector<std::uint32_t>& nodes :
       {std::vector<std::uint32_t>{0, 0, 1}, {0, 1, 2}, {5, 5, 5}, {5}}) {
    const NodeGroups groups(nodes);
    EXPECT_EQ(groups.groups(), 1u);
    EXPECT_EQ(groups.members(), nodes.size());
    for (std::uint32_t device = 0; device < nodes.size(); ++device) {
      EXPECT_EQ(groups.group_of(device), 0u);
      EXPECT_EQ(groups.member_of(device), device);
      EXPECT_EQ(groups.device(0, device), device);
    }
  }
}

}  // namespace
}  // namespace orrery::moe
