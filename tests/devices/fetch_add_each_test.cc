#include "devices/fetch_add_each.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr std::array<fabric::Address, 3> kWords = {1 << 20, (1 << 20) + 4, (1 << 20) + 64};

// Each core adds to all words, in the time of one atomic, and no two get the same.
TEST(FetchAddEach, TakesTheTimeOfOne) {
  Rig rig(machine("tiny"), 1);
  std::vector<std::array<std::uint32_t, 3>> before(4);
  std::vector<Time> took(4);
  rig.run(
      0,
      [&](Core& core) -> Task {
        const Time start = core.now();
        co_await fetch_add_each(core, kWords, 2, before[core.index()]);
        took[core.index()] = core.now() - start;
      },
      4);
  EXPECT_EQ(rig.go(), "");
  std::vector<bool> seen(4, false);
  for (std::uint32_t core = 0; core < 4; ++core) {
    EXPECT_EQ(took[core], rig.costs().local_atomic);
    EXPECT_EQ(before[core][0], before[core][1]);
    EXPECT_EQ(before[core][0], before[core][2]);
    seen.at(before[core][0] / 2) = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(4, true));
  for (const fabric::Address word : kWords) {
    EXPECT_EQ(rig.memory(0).load<std::uint32_t>(word), 8u);
  }
}

TEST(FetchAddEach, OfNoWordsIsNothing) {
  Rig rig(machine("tiny"), 1);
  Time took = 1;
  rig.run(0, [&](Core& core) -> Task {
    const Time start = core.now();
    co_await fetch_add_each(core, {}, 1, {});
    took = core.now() - start;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(took, 0);
}

}  // namespace
}  // namespace orrery::devices
