#include "fabric/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "emu/errors.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Placement : public ::testing::Test {
 protected:
  // 4 nodes of 6 devices.
  const Topology topology_ = topology_of(kSmallFabrics[4]);

  std::string error_of(std::uint32_t count, const std::string& how) {
    try {
      place(topology_, count, how);
    } catch (const emu::ConfigError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(Placement, PackedFillsNodeAfterNode) {
  EXPECT_THAT(place(topology_, 8, "packed"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(Placement, SpreadDealsRanksOverNodes) {
  EXPECT_THAT(place(topology_, 9, "spread"), ElementsAre(0, 6, 12, 18, 1, 7, 13, 19, 2));
  EXPECT_THAT(place(topology_, 3, "spread"), ElementsAre(0, 6, 12));
  const std::vector<NodeId> all = place(topology_, 24, "spread");
  EXPECT_EQ(std::set<NodeId>(all.begin(), all.end()).size(), 24u);
}

TEST_F(Placement, SpreadWithoutNodesIsPacked) {
  EXPECT_THAT(place(topology_of(kSmallFabrics[1]), 3, "spread"), ElementsAre(0, 1, 2));
}

TEST_F(Placement, AListIsTakenInItsOrder) {
  EXPECT_THAT(place(topology_, 6, "20-22,0,7-8"), ElementsAre(20, 21, 22, 0, 7, 8));
  EXPECT_THAT(place(topology_, 1, "23"), ElementsAre(23));
}

TEST_F(Placement, BadPlacementsAreRefused) {
  const struct {
    std::uint32_t count;
    const char* how;
    const char* error;
  } cases[] = {
      {0, "packed", "--devices: got '0', expected from 1 to 24"},
      {25, "packed", "--devices: got '25', expected from 1 to 24"},
      {25, "spread", "--devices: got '25', expected from 1 to 24"},
      {2, "pack", "--placement: got 'pack', expected packed, spread, or a list"},
      {2, "", "--placement: got '', expected packed, spread, or a list"},
      {2, "0,", "expected packed, spread, or a list"},
      {2, "-1", "expected packed, spread, or a list"},
      {2, "0-", "expected packed, spread, or a list"},
      {2, "0-1-2", "expected packed, spread, or a list"},
      {2, " 0,1", "expected packed, spread, or a list"},
      {2, "0x1,2", "expected packed, spread, or a list"},
      {2, "0,24", "--placement: got '24', expected device ports from 0 to 23"},
      {2, "0-4294967295", "expected device ports from 0 to 23"},
      {2, "99999999999999999999", "expected device ports from 0 to 23"},
      {2, "5-4", "got '5-4', expected a range that runs upwards"},
      {3, "0-1,1", "expected each device port once, not 1 twice"},
      {3, "0-1", "got '2 device ports', expected 3, one per device of the run"},
      {1, "0-1", "got '2 device ports', expected 1, one per device of the run"},
  };
  for (const auto& test : cases)
    EXPECT_THAT(error_of(test.count, test.how), HasSubstr(test.error)) << test.how;
}

}  // namespace
}  // namespace orrery::fabric
