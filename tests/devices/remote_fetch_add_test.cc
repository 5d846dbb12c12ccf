#include "devices/remote_fetch_add.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "devices/order_check.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kWord = 1 << 20;
constexpr fabric::Address kHere = 2 << 20;

fabric::Address own_word(const Core& core) { return kHere + core.index() * std::uint64_t{64}; }

// Ranges reserved by cores of all devices lie side by side, whoever is first, near or far.
TEST(RemoteFetchAdd, NoTwoGetTheSame) {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    Rig rig(machine("tiny"), 4, {seed > 0, seed, ns(3000)});
    std::vector<std::vector<std::uint32_t>> before(4, std::vector<std::uint32_t>(3));
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      rig.run(
          rank,
          [&before](Core& core) -> Task {
            const RemoteAddition one{2, kWord, 1 + core.rank() * 3 + core.index()};
            auto add = remote_fetch_add(core, {&one, 1}, own_word(core));
            co_await add;
            before[core.rank()][core.index()] = core.load<std::uint32_t>(own_word(core));
          },
          3);
    }
    EXPECT_EQ(rig.go(), "");
    std::set<std::uint32_t> taken;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      for (std::uint32_t core = 0; core < 3; ++core) {
        for (std::uint32_t i = 0; i < 1 + rank * 3 + core; ++i) {
          EXPECT_TRUE(taken.insert(before[rank][core] + i).second) << "seed " << seed;
        }
      }
      EXPECT_EQ(rig.device(rank).counters().atomics, 3u);
    }
    EXPECT_EQ(taken.size(), 78u);
    EXPECT_EQ(*taken.rbegin(), 77u);
    EXPECT_EQ(rig.memory(2).load<std::uint32_t>(kWord), 78u);
  }
}

// A round trip of a header and a word, to the picosecond; the links of both machines are as fast
// all along the way.
TEST(RemoteFetchAdd, TakesARoundTrip) {
  struct Way {
    const char* topology;
    const char* placement;
    Time latency;
    double link_rate;
  };
  const Machine cm = machine("cm384");
  const fabric::Clos& clos = cm.fabric().clos();
  const Time node = 2 * ns(clos.device_link().latency_ns());
  const double rate = clos.device_link().gb_per_s();
  const Machine gb = machine("gb200-nvl72");
  const fabric::LinkSpec& link = gb.fabric().clos().device_link();
  for (const Way& way : {Way{"cm384", "0,2", node, rate},
                         Way{"cm384", "0,16", node + 2 * ns(clos.uplink().latency_ns()), rate},
                         Way{"gb200-nvl72", "0,5", 2 * ns(link.latency_ns()), link.gb_per_s()}}) {
    Rig rig(machine(way.topology), 2, {}, way.placement);
    Time done = 0;
    rig.run(0, [&done](Core& core) -> Task {
      const RemoteAddition five{1, kWord, 5};
      auto add = remote_fetch_add(core, {&five, 1}, kHere);
      co_await add;
      done = core.now();
    });
    EXPECT_EQ(rig.go(), "");
    const Machine file = machine(way.topology);
    const std::uint32_t bytes = 4 + file.fabric().header_bytes();
    EXPECT_EQ(done,
              rig.costs().launch + rig.costs().issue + 2 * (way.latency + ps(bytes, way.link_rate)))
        << way.topology << " " << way.placement;
    EXPECT_EQ(rig.memory(1).load<std::uint32_t>(kWord), 5u);
  }
}

// Lanes ask at once: the way to each device once, and one issue.
TEST(RemoteFetchAdd, LanesAddToSeveralDevices) {
  Rig rig(machine("tiny"), 4);
  const RemoteAddition to_all[] = {
      {0, kWord, 1}, {1, kWord, 2}, {2, kWord, 3}, {3, kWord, 4}, {3, kWord + 4, 5}};
  Time alone = 0;
  Time all = 0;
  rig.run(0, [&](Core& core) -> Task {
    auto far = remote_fetch_add(core, std::span(to_all).subspan(3), kHere);
    Time start = core.now();
    co_await far;
    alone = core.now() - start;
    auto every = remote_fetch_add(core, to_all, kHere);
    start = core.now();
    co_await every;
    all = core.now() - start;
    auto none = remote_fetch_add(core, {}, kHere);
    start = core.now();
    co_await none;
    EXPECT_EQ(core.now(), start);
    const auto before = core.array<std::uint32_t>(kHere, 5);
    EXPECT_THAT(before, testing::ElementsAre(0, 0, 0, 4, 5));
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_GE(all, alone);
  EXPECT_LT(all, alone + ns(10));  // requests may share a link
  EXPECT_EQ(rig.memory(3).load<std::uint32_t>(kWord), 8u);
  EXPECT_EQ(rig.memory(3).load<std::uint32_t>(kWord + 4), 10u);
  EXPECT_EQ(rig.memory(1).load<std::uint32_t>(kWord), 2u);
  EXPECT_EQ(rig.device(0).counters().atomics, 7u);
}

// The device's own cores add to the same word in their own way.
TEST(RemoteFetchAdd, MeetsAdditionsOfTheOwner) {
  Rig rig(machine("tiny"), 2);
  std::set<std::uint32_t> seen;
  rig.run(0, [&seen](Core& core) -> Task {
    for (int i = 0; i < 20; ++i) {
      const RemoteAddition one{1, kWord, 1};
      auto add = remote_fetch_add(core, {&one, 1}, kHere);
      co_await add;
      seen.insert(core.load<std::uint32_t>(kHere));
    }
  });
  rig.run(1, [&seen](Core& core) -> Task {
    for (int i = 0; i < 20; ++i) {
      seen.insert(co_await core.fetch_add(kWord, 1));
      co_await core.compute(ns(400));
    }
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_EQ(*seen.rbegin(), 39u);
}

// --- What --check makes of it ---

std::vector<Finding> findings_of(const Program& owner) {
  Rig rig(machine("tiny"), 3, {}, "packed", 8 << 20, 0, {}, {}, 1 << 20);
  for (const std::uint32_t rank : {0u, 2u}) {
    rig.run(rank, [](Core& core) -> Task {
      const RemoteAddition one{1, kWord, 1};
      auto add = remote_fetch_add(core, {&one, 1}, kHere);
      co_await add;
      EXPECT_LT(core.load<std::uint32_t>(kHere), 2u);
      co_await core.store(1, kHere + 64 * (core.rank() + 1), std::uint32_t{1});
    });
  }
  rig.run(1, owner);
  EXPECT_EQ(rig.go(), "");
  return check_order(rig.cluster()).findings;
}

std::string texts_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& each : findings) text += to_text(each) + "\n";
  return text;
}

TEST(RemoteFetchAdd, IsCleanAmongItselfAndForWhoHeardOfAll) {
  EXPECT_EQ(texts_of(findings_of([](Core& core) -> Task {
              const Slots told{kHere + 64, 4, 128, 2, 0};
              const Predicate one = word_equals(1);
              co_await core.wait_until(told, one, nobody);
              EXPECT_EQ(core.load<std::uint32_t>(kWord), 2u);
              core.write(kWord, std::uint32_t{0});
            })),
            "");
}

TEST(RemoteFetchAdd, IsReportedWhereTheOwnerJustLooks) {
  const std::vector<Finding> found = findings_of([](Core& core) -> Task {
    co_await core.compute(emu::Time{100'000'000});
    EXPECT_EQ(core.load<std::uint32_t>(kWord), 2u);
  });
  ASSERT_EQ(found.size(), 1u) << texts_of(found);
  EXPECT_EQ(found[0].kind, FindingKind::kUnorderedRead);
  EXPECT_EQ(found[0].first.verb, Verb::kRemoteFetchAdd);
  EXPECT_THAT(to_text(found[0]), testing::HasSubstr("remote_fetch_add by device"));
}

TEST(RemoteFetchAdd, IsReportedWhereTheOwnerClearsTooEarly) {
  const std::vector<Finding> found = findings_of([](Core& core) -> Task {
    co_await core.compute(emu::Time{100'000'000});
    core.write(kWord, std::uint32_t{0});
  });
  ASSERT_EQ(found.size(), 1u) << texts_of(found);
  EXPECT_EQ(found[0].kind, FindingKind::kUnorderedOverwrite);
  EXPECT_EQ(found[0].first.verb, Verb::kRemoteFetchAdd);
}

}  // namespace
}  // namespace orrery::devices
