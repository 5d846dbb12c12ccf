#include "devices/get_each.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "emu/errors.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 1 << 20;
constexpr fabric::Address kTarget = 2 << 20;

void fill(fabric::Memory& memory, fabric::Address at, std::uint32_t bytes, int seed) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    memory.store(at + i, static_cast<std::uint8_t>(seed + i * 7));
  }
}

bool holds(fabric::Memory& memory, fabric::Address at, std::uint32_t bytes, int seed) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (memory.load<std::uint8_t>(at + i) != static_cast<std::uint8_t>(seed + i * 7)) return false;
  }
  return true;
}

TEST(GetEach, BringsWhatEachDeviceHas) {
  Rig rig(machine("tiny"), 4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    fill(rig.memory(rank), kSource, 5000, static_cast<int>(rank));
  }
  rig.run(0, [&](Core& core) -> Task {
    const std::vector<Fetch> fetches{{1, kSource, kTarget, 5000},
                                     {2, kSource, kTarget + 8192, 3000},
                                     {0, kSource, kTarget + 16384, 8},
                                     {1, kSource + 7, kTarget + 32768, 900}};
    co_await get_each(core, fetches);
    EXPECT_TRUE(holds(rig.memory(0), kTarget, 5000, 1));
    EXPECT_TRUE(holds(rig.memory(0), kTarget + 8192, 3000, 2));
    EXPECT_TRUE(holds(rig.memory(0), kTarget + 16384, 8, 0));
    EXPECT_TRUE(holds(rig.memory(0), kTarget + 32768, 900, 1 + 7 * 7));
  });
  EXPECT_EQ(rig.go(), "");
}

// They are on their way together: n of them take an issue each and the way of one.
TEST(GetEach, LatenciesOverlap) {
  Rig rig(machine("tiny"), 2);
  Time one = 0;
  Time eight = 0;
  rig.run(0, [&](Core& core) -> Task {
    const Time start = core.now();
    co_await core.get(1, kSource, kTarget, 64);
    one = core.now() - start;
    std::vector<Fetch> fetches;
    for (std::uint32_t i = 0; i < 8; ++i) fetches.push_back({1, kSource, kTarget + i * 64, 64});
    const Time again = core.now();
    co_await get_each(core, fetches);
    eight = core.now() - again;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_GE(eight, one + 7 * rig.costs().issue);
  EXPECT_LT(eight, 2 * one + 7 * rig.costs().issue);
}

TEST(GetEach, OneIsAGet) {
  Rig rig(machine("tiny"), 2);
  Time single = 0;
  Time each = 1;
  rig.run(0, [&](Core& core) -> Task {
    const Time start = core.now();
    co_await core.get(1, kSource, kTarget, 900);
    single = core.now() - start;
    const std::vector<Fetch> one{{1, kSource, kTarget, 900}};
    const Time again = core.now();
    co_await get_each(core, one);
    each = core.now() - again;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(each, single);
}

TEST(GetEach, OfNothingIsNothingAndOfNoBytesAnError) {
  Rig rig(machine("tiny"), 2);
  Time took = 1;
  rig.run(0, [&](Core& core) -> Task {
    const Time start = core.now();
    co_await get_each(core, {});
    took = core.now() - start;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(took, 0);
  Rig other(machine("tiny"), 2);
  other.run(0, [](Core& core) -> Task {
    const std::vector<Fetch> none{{1, kSource, kTarget, 0}};
    co_await get_each(core, none);
  });
  EXPECT_THROW(other.go(), emu::InvariantError);
}

}  // namespace
}  // namespace orrery::devices
