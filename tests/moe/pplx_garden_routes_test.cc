#include "moe/algorithms/pplx_garden_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace orrery::moe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SendPlan, RowsForADeviceAreNeighbours) {
  const ExpertPlacement placement(5, 3);  // 0; 1, 2; 3, 4
  const std::vector<std::int32_t> ids = {4, 1, -1, 2, 1, 4};
  const SendPlan plan(placement, ids);
  EXPECT_THAT(plan.counts(), ElementsAre(0, 2, 1, 0, 2));
  EXPECT_EQ(plan.rows(0), 0u);
  EXPECT_EQ(plan.first(1), 0u);
  EXPECT_EQ(plan.rows(1), 3u);
  EXPECT_EQ(plan.first(2), 3u);
  EXPECT_EQ(plan.rows(2), 2u);
  std::vector<std::uint32_t> positions;
  for (const std::size_t entry : {1, 4, 3, 0, 5}) positions.push_back(plan.position(entry));
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3, 4));
}

TEST(SendPlan, OfFewerExpertsThanDevicesSomeGetNone) {
  const ExpertPlacement placement(2, 4);
  const std::vector<std::int32_t> ids = {1, 0};
  const SendPlan plan(placement, ids);
  std::vector<std::uint32_t> rows;
  for (std::uint32_t device = 0; device < 4; ++device) rows.push_back(plan.rows(device));
  EXPECT_EQ(rows[placement.owner(0)], 1u);
  EXPECT_EQ(rows[placement.owner(1)], 1u);
  EXPECT_EQ(rows[0] + rows[1] + rows[2] + rows[3], 2u);
}

TEST(PeersOf, DevicesOfANodeBeginWithDifferentOnes) {
  const std::vector<std::uint32_t> nodes = {0, 0, 1, 1, 1};
  EXPECT_THAT(peers_of(nodes, 3, true), ElementsAre(4, 2));
  EXPECT_THAT(peers_of(nodes, 2, false), ElementsAre(0, 1));
  EXPECT_THAT(peers_of(nodes, 3, false), ElementsAre(1, 0));
  EXPECT_THAT(peers_of(nodes, 4, false), ElementsAre(0, 1));
  EXPECT_THAT(peers_of(nodes, 0, false), ElementsAre(2, 3, 4));
  EXPECT_THAT(peers_of(nodes, 1, false), ElementsAre(3, 4, 2));
  EXPECT_THAT(peers_of({0, 1}, 0, true), IsEmpty());
  EXPECT_THAT(peers_of({7}, 0, true), IsEmpty());
}

TEST(ComingRows, TakePlacesInTheOrderOfTheirSources) {
  const std::vector<std::uint32_t> lists = {2, 0, 9, 1, 1, 9};  // of a stride of 3, 2 of them here
  std::vector<std::uint32_t> taken(2, 0);
  const auto first = coming_rows(std::vector<std::uint32_t>{1}, lists, 3, taken);
  const auto second = coming_rows(std::vector<std::uint32_t>{0}, lists, 3, taken);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].index, 1u);
  EXPECT_EQ(first[1].local, 1u);
  EXPECT_EQ(first[1].row, 0u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[1].source, 0u);
  EXPECT_EQ(second[1].index, 1u);
  EXPECT_EQ(second[1].local, 0u);
  EXPECT_EQ(second[1].row, 2u);
  EXPECT_THAT(taken, ElementsAre(3, 1));
}

}  // namespace
}  // namespace orrery::moe
