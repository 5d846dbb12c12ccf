#include "devices/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "devices/order_check.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr std::uint32_t kRowBytes = 512;
constexpr std::uint32_t kWhole = 4096;  // bytes of a packet: a row and more
constexpr fabric::Address kFrom = 0;
constexpr HubRegion kRegion{1 << 20, kRowBytes, 8, 2 << 20, 4};
constexpr HubRegion kOther{3 << 20, kRowBytes, 8, 4 << 20, 4};

Machine with_hub(Overrides overrides = {}) {
  overrides.insert(overrides.begin(), {"device.hub.packet_bytes", "4096"});
  return machine("tiny", overrides);
}

fabric::Address row(std::uint32_t index, const HubRegion& region = kRegion) {
  return region.rows + std::uint64_t{index} * kRowBytes;
}
std::uint64_t count_of(Rig& rig, std::uint32_t block, const HubRegion& region = kRegion) {
  return rig.memory(1).load<std::uint64_t>(region.words + block * 8);
}

// Sends `rows` rows, each of which begins with who sent it, from every core.
Program sender(std::uint32_t rows, const HubRegion& region = kRegion,
               std::uint32_t packet_bytes = kWhole) {
  return [=](Core& core) -> Task {
    for (std::uint32_t i = 0; i < rows; ++i) {
      const fabric::Address from = kFrom + (core.index() * std::uint64_t{64} + i) * kRowBytes;
      core.write(from, (core.rank() << 16) + (core.index() << 8) + i + 1);
      const Piece piece{region.rows, from, kRowBytes};
      co_await core.send(1, piece, region.words, packet_bytes);
    }
    co_await core.quiet();
  };
}

// How long device 0 takes until all of its rows are acknowledged.
Time time_of(std::uint32_t rows, std::uint32_t packet_bytes, Overrides overrides,
             Counters* counters = nullptr) {
  Rig rig(with_hub(std::move(overrides)), 2);
  rig.device(1).hub()->add(kRegion);
  rig.device(1).hub()->add(kOther);
  Time done = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await sender(rows, kRegion, packet_bytes)(core);
    co_await core.quiet();
    done = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  if (counters != nullptr) *counters = rig.device(1).counters();
  return done;
}

// A row is a packet and its word another one; where the hub is slower than all else, each packet
// more is its service time more, to the picosecond.
TEST(Hub, ServesPacketsOneByOne) {
  for (const Time service : {ns(1000), ns(1700)}) {
    const Overrides slow = {{"device.hub.service_ns", std::to_string(service / 1000)},
                            {"device.outstanding_stores", "0"}};
    Counters counters;
    const Time one = time_of(1, kWhole, slow);
    EXPECT_EQ(time_of(5, kWhole, slow, &counters) - one, 8 * service);
    EXPECT_EQ(counters.hub_packets, 10u);
    // Fragments of 128 bytes: five packets a row.
    EXPECT_EQ(time_of(5, 128, slow, &counters) - time_of(1, 128, slow), 20 * service);
    EXPECT_EQ(counters.hub_packets, 25u);
  }
}

TEST(Hub, WithoutServiceTimeIsAPutWithASignalThatAdds) {
  Rig rig(machine("tiny"), 2);
  Time done = 0;
  rig.run(0, [&done](Core& core) -> Task {
    core.write(kFrom, std::uint32_t{1});
    const Piece piece{kRegion.rows, kFrom, kRowBytes};
    co_await core.put_signal_add(1, piece, kRegion.words, 1);
    co_await core.quiet();
    done = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(time_of(1, kWhole, {}), done);
}

// Whoever comes, whatever is late: rows lie side by side, each whole, counted by block.
TEST(Hub, EveryRowGetsAPlaceOfItsOwn) {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    Rig rig(with_hub(), 4, {seed > 0, seed, ns(3000)});
    rig.device(1).hub()->add(kRegion);
    for (const std::uint32_t rank : {0u, 1u, 2u}) rig.run(rank, sender(1), 2);
    EXPECT_EQ(rig.go(), "");
    std::set<std::uint32_t> found;
    for (std::uint32_t i = 0; i < 6; ++i) found.insert(rig.memory(1).load<std::uint32_t>(row(i)));
    EXPECT_THAT(found, testing::ElementsAre(1, 0x101, 0x10001, 0x10101, 0x20001, 0x20101));
    EXPECT_EQ(count_of(rig, 0), 4u);
    EXPECT_EQ(count_of(rig, 1), 2u);
    EXPECT_EQ(count_of(rig, 2), 0u);
  }
}

TEST(Hub, WhatFindsNoRoomIsRefusedAndNotLost) {
  Rig rig(with_hub(), 2);
  rig.device(1).hub()->add(kRegion);
  std::uint32_t refused = 0;
  rig.run(0, [&refused](Core& core) -> Task {
    co_await sender(11)(core);
    refused = core.refused();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(refused, 3u);
  EXPECT_EQ(rig.device(1).counters().hub_refused, 3u);
  EXPECT_EQ(rig.memory(1).load<std::uint64_t>(kRegion.refused()), 3u);
  EXPECT_EQ(count_of(rig, 0) + count_of(rig, 1), 8u);
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(rig.memory(1).load<std::uint32_t>(row(i)), i + 1);
  }
}

TEST(Hub, AnEmptiedRegionBeginsAgain) {
  Rig rig(with_hub(), 2);
  const std::uint32_t region = rig.device(1).hub()->add(kRegion);
  rig.run(0, sender(3));
  EXPECT_EQ(rig.go(), "");
  rig.device(1).hub()->empty(region);
  rig.memory(1).store(kRegion.words, std::uint64_t{0});
  rig.run(0, sender(1), 1, ns(1e6));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(count_of(rig, 0), 1u);
  EXPECT_EQ(rig.memory(1).load<std::uint32_t>(row(0)), 1u);
}

// One entry for two regions: each change between them is a miss.
TEST(Hub, ReadsTheStateOfARegionThatIsNotAtHand) {
  const auto run = [](const char* entries) {
    Rig rig(with_hub({{"device.hub.entries", entries}, {"device.hub.miss_ns", "500"}}), 2);
    rig.device(1).hub()->add(kRegion);
    rig.device(1).hub()->add(kOther);
    Time done = 0;
    rig.run(0, [&done](Core& core) -> Task {
      for (int i = 0; i < 3; ++i) {
        co_await sender(1)(core);
        co_await sender(1, kOther)(core);
      }
      done = core.now();
    });
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(count_of(rig, 0, kOther), 3u);
    return std::pair(rig.device(1).counters().hub_misses, done);
  };
  const auto [none, at_hand] = run("0");
  EXPECT_EQ(none, 0u);
  const auto [misses, slow] = run("1");
  EXPECT_EQ(misses, 6u);
  EXPECT_EQ(slow - at_hand, 6 * (ns(500) - ps(8, 10)));  // meanwhile the word comes, behind the row
  EXPECT_EQ(run("2").first, 2u);                         // the first of each
}

// --- What --check makes of it ---

std::vector<Finding> findings_of(const Program& owner) {
  Rig rig(with_hub(), 3, {}, "packed", 8 << 20, 0, {}, {}, 1 << 20);
  rig.device(1).hub()->add(kRegion);
  for (const std::uint32_t rank : {0u, 2u}) rig.run(rank, sender(2));
  rig.run(1, owner);
  EXPECT_EQ(rig.go(), "");
  return check_order(rig.cluster()).findings;
}

TEST(Hub, ABlocksWordTellsOfAllItsRows) {
  const std::vector<Finding> found = findings_of([](Core& core) -> Task {
    const Slots word = word_at(kRegion.words);
    const Predicate four = word_at_least(4);
    co_await core.wait_until(word, four, nobody);
    for (std::uint32_t i = 0; i < 4; ++i) core.consume(row(i), kRowBytes);
  });
  EXPECT_EQ(found.size(), 0u) << (found.empty() ? "" : to_text(found[0]));
}

TEST(Hub, RowsThatNoWordToldOfAreReported) {
  const std::vector<Finding> found = findings_of([](Core& core) -> Task {
    co_await core.compute(Time{100'000'000});
    core.consume(row(2), kRowBytes);
  });
  ASSERT_GE(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FindingKind::kUnproven);
}

TEST(Hub, MachinesWithManyClassesOfLinksHaveNone) {
  EXPECT_THAT(
      [] {
        Rig rig(machine("perlmutter", {{"device.hub.service_ns", "1"}}), 2);
      },
      testing::Throws<emu::ConfigError>(
          testing::Property(&emu::ConfigError::what, testing::HasSubstr("device.hub"))));
}

}  // namespace
}  // namespace orrery::devices
