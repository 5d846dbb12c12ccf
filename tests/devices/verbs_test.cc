#include "devices/verbs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "emu/errors.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 0;
constexpr fabric::Address kTarget = 1 << 20;
constexpr fabric::Address kFlag = 2 << 20;
// Numbers of topologies/tiny.textproto.
const Time kLaunch = ns(1000);
const Time kIssue = ns(100);

void fill(Rig& rig, std::uint32_t rank, fabric::Address address, std::uint32_t bytes,
          unsigned seed) {
  auto view = rig.memory(rank).view(address, bytes);
  for (std::uint32_t i = 0; i < bytes; ++i)
    view[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
}
bool same(Rig& rig, std::uint32_t a, fabric::Address at_a, std::uint32_t b, fabric::Address at_b,
          std::uint32_t bytes) {
  const auto x = rig.memory(a).view(at_a, bytes);
  const auto y = rig.memory(b).view(at_b, bytes);
  return std::equal(x.begin(), x.end(), y.begin());
}

TEST(Put, CarriesItsBytes) {
  for (const std::uint32_t bytes : {1u, 63u, 64u, 4096u, 4097u, 100'000u}) {
    for (const std::uint32_t shift : {0u, 1u, 63u}) {
      Rig rig(machine("tiny"), 4);
      fill(rig, 0, kSource, bytes, 3);
      rig.run(0,
              [&](Core& core) -> Task { co_await core.put(3, kTarget + shift, kSource, bytes); });
      EXPECT_EQ(rig.go(), "");
      EXPECT_TRUE(same(rig, 0, kSource, 3, kTarget + shift, bytes))
          << bytes << " bytes, shifted by " << shift;
      EXPECT_EQ(rig.memory(3).load<std::uint8_t>(kTarget + shift + bytes), 0);
      EXPECT_EQ(rig.memory(3).load<std::uint8_t>(kTarget + shift - 1), 0);
    }
  }
}

TEST(Put, OfSeveralPiecesIsOnePut) {
  Rig rig(machine("tiny"), 2);
  fill(rig, 0, kSource, 20'000, 1);
  Time issued = 0;
  rig.run(0, [&](Core& core) -> Task {
    const Piece pieces[] = {{kTarget, kSource, 5000},
                            {kTarget + 9000, kSource + 7000, 64},
                            {kTarget + 10'000, kSource + 9000, 9000}};
    co_await core.put(1, pieces);
    issued = core.now();
    EXPECT_EQ(core.outstanding(), 1u);
    co_await core.quiet();
    EXPECT_EQ(core.outstanding(), 0u);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(issued, kLaunch + kIssue);
  EXPECT_TRUE(same(rig, 0, kSource, 1, kTarget, 5000));
  EXPECT_TRUE(same(rig, 0, kSource + 7000, 1, kTarget + 9000, 64));
  EXPECT_TRUE(same(rig, 0, kSource + 9000, 1, kTarget + 10'000, 9000));
  EXPECT_EQ(rig.device(0).counters().puts, 1u);
  EXPECT_EQ(rig.device(0).counters().bytes_put, 14'064u);
}

TEST(Put, OfNoBytesIsAnError) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.put(1, kTarget, kSource, 0); });
  EXPECT_THROW(rig.go(), emu::InvariantError);
}

TEST(Put, ImmediateDataIsTakenAtIssue) {
  struct Block {
    std::array<std::uint64_t, 8> words;
  };
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task {
    Block block{};
    block.words.fill(7);
    co_await core.store(1, kFlag, block);
    block.words.fill(9);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.memory(1).load<std::uint64_t>(kFlag + 56), 7u);
  EXPECT_EQ(rig.device(0).counters().signals, 1u);
}

// The source is read packet by packet as each leaves the core's pipe: 4096 bytes take 409.6 ns at
// 10 GB/s.
TEST(Put, ReusingASourceTooEarlyCorruptsData) {
  constexpr std::uint32_t kBytes = 3 * 4096;
  Rig rig(machine("tiny"), 2);
  fill(rig, 0, kSource, kBytes, 1);
  rig.run(0, [&](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, kBytes);
    co_await core.compute(ns(409.6) + 1);  // the first packet has left, the other two have not
    core.memory().view(kSource, kBytes)[0] = std::byte{0xee};
    core.memory().view(kSource, kBytes)[2 * 4096] = std::byte{0xee};
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.memory(1).load<std::uint8_t>(kTarget), 1);
  EXPECT_EQ(rig.memory(1).load<std::uint8_t>(kTarget + 2 * 4096), 0xee);
}

TEST(Put, ASourceMayBeReusedOnceItIsLocallyComplete) {
  for (const std::uint32_t bytes : {4u, 4096u, 3u * 4096u, 3u * 4096u + 8u}) {
    for (const char* store_rate : {"10", "0"}) {
      Rig rig(machine("tiny", {{"device.core_store_gb_per_s", store_rate}}), 2);
      fill(rig, 0, kSource, bytes, 1);
      std::vector<std::byte> sent(rig.memory(0).view(kSource, bytes).begin(),
                                  rig.memory(0).view(kSource, bytes).end());
      rig.run(0, [&](Core& core) -> Task {
        const PutHandle handle = co_await core.put(1, kTarget, kSource, bytes);
        co_await core.wait_local(handle);
        EXPECT_EQ(core.now(), std::max(handle.locally_complete, kLaunch + kIssue));
        std::ranges::fill(core.memory().view(kSource, bytes), std::byte{0xee});
      });
      EXPECT_EQ(rig.go(), "");
      const auto got = rig.memory(1).view(kTarget, bytes);
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()))
          << bytes << " at " << store_rate;
    }
  }
}

// The same where the core comes to wait_local at the very moment at which the last packet leaves.
TEST(Put, LocalCompletionAtTheMomentOfTheLastPacket) {
  constexpr std::uint32_t kBytes = 3 * 4096;
  Rig rig(machine("tiny"), 2);
  fill(rig, 0, kSource, kBytes, 1);
  const auto last = rig.memory(0).load<std::uint8_t>(kSource + kBytes - 1);
  rig.run(0, [&](Core& core) -> Task {
    const PutHandle handle = co_await core.put(1, kTarget, kSource, kBytes);
    co_await core.compute(handle.locally_complete - core.now());
    co_await core.wait_local(handle);
    std::ranges::fill(core.memory().view(kSource, kBytes), std::byte{0xee});
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.memory(1).load<std::uint8_t>(kTarget + kBytes - 1), last);
}

TEST(Window, AFifthPutWaitsForTheFirstAcknowledgement) {
  Rig rig(machine("tiny"), 2);  // 4 outstanding stores
  std::vector<Time> issued;
  rig.run(0, [&](Core& core) -> Task {
    for (int i = 0; i < 6; ++i) {
      co_await core.store(1, kFlag, i);
      issued.push_back(core.now() - kIssue);
    }
  });
  EXPECT_EQ(rig.go(), "");
  // A store of 4 bytes: issue, 0.4 ns in the pipe, 0.4 ns on the link, 1000 ns there, 1000 ns back.
  const Time round_trip = kIssue + ps(4, 10) + ps(4, 10) + 2 * ns(1000);
  EXPECT_EQ(issued[3], kLaunch + 3 * kIssue);
  EXPECT_EQ(issued[4], kLaunch + round_trip);
  EXPECT_EQ(issued[5], kLaunch + kIssue + round_trip);
  const Timeline& timeline = rig.device(0).records().front().timelines[0];
  EXPECT_EQ(sum_by_category(timeline)[static_cast<std::size_t>(Category::kStoreWindow)],
            round_trip - 4 * kIssue);
}

TEST(Window, CountsEachCoreForItself) {
  Rig rig(machine("tiny"), 2);
  std::vector<Time> ended(4);
  rig.run(
      0,
      [&](Core& core) -> Task {
        for (int i = 0; i < 4; ++i) co_await core.store(1, kFlag + core.index() * 64, i);
        ended[core.index()] = core.now();
      },
      4);
  EXPECT_EQ(rig.go(), "");
  for (const Time end : ended) EXPECT_EQ(end, kLaunch + 4 * kIssue);
}

TEST(Fence, CostsItsIssueTimeWhereTheFabricOrders) {
  Rig rig(machine("tiny"), 2);
  Time end = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, 4096);
    co_await core.fence();
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, kLaunch + kIssue + ns(20));
  EXPECT_EQ(rig.device(0).counters().fences, 1u);
  EXPECT_EQ(rig.device(0).counters().drains, 0u);
}

TEST(Fence, IsAQuietWhereTheFabricDoesNot) {
  Rig rig(machine("tiny", {{"fabric.order_scope", "NONE"}}), 2);
  Time end = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, 4096);
    co_await core.fence();
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, kLaunch + kIssue + 2 * ps(4096, 10) + 2 * ns(1000));
  EXPECT_EQ(rig.device(0).counters().drains, 1u);
}

TEST(Quiet, WaitsForEveryPutOfItsOwnCoreAlone) {
  Rig rig(machine("tiny"), 4);
  std::vector<Time> end(2);
  rig.run(
      0,
      [&](Core& core) -> Task {
        if (core.index() == 0) {
          co_await core.put(3, kTarget, kSource, 40'000);
        } else {
          co_await core.store(1, kFlag, 1);
          co_await core.store(3, kFlag, 1);  // held back behind the other core's large put
          co_await core.store(1, kFlag, 2);
        }
        co_await core.quiet();
        end[core.index()] = core.now();
        co_await core.quiet();  // nothing outstanding: no time
        EXPECT_EQ(core.now(), end[core.index()]);
      },
      2);
  EXPECT_EQ(rig.go(), "");
  // Ten packets of the large put, one after the other through pipe and link at the same rate.
  EXPECT_EQ(end[0],
            kLaunch + kIssue + ps(4096, 10) * 10 + ps(40'000 - 9 * 4096, 10) + 2 * ns(2000));
  EXPECT_EQ(end[1], end[0]);
}

TEST(Order, CorePairDoesNotHoldAnotherCoresPut) {
  for (const auto& [scope, held] :
       {std::pair{"DEVICE_PAIR", true}, std::pair{"CORE_PAIR", false}}) {
    Rig rig(machine("tiny", {kFinePolls, {"fabric.order_scope", scope}}), 2);
    Time put_seen = 0;
    Time flag_seen = 0;
    rig.memory(0).store(kSource + 39'996, std::uint32_t{1});
    rig.run(
        0,
        [](Core& core) -> Task {
          if (core.index() == 0) {
            co_await core.put(1, kTarget, kSource, 40'000);
          } else {
            co_await core.compute(ns(10));
            co_await core.store(1, kFlag, std::uint32_t{1});
          }
        },
        2);
    rig.run(
        1,
        [&](Core& core) -> Task {
          if (core.index() == 0) {
            co_await core.wait_until(word_at(kTarget + 39'996), word_equals(1), nobody);
            put_seen = core.now();
          } else {
            co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
            flag_seen = core.now();
          }
        },
        2);
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(flag_seen, held ? put_seen : kLaunch + ns(10) + kIssue + 2 * ps(4, 10) + ns(1000) + 1)
        << scope;
  }
}

TEST(Get, BringsRemoteBytes) {
  for (const std::uint32_t target : {0u, 1u, 3u}) {
    Rig rig(machine("tiny"), 4);
    fill(rig, target, kSource, 9000, 5);
    rig.run(0, [&](Core& core) -> Task {
      co_await core.get(target, kSource, kTarget + 3, 9000);
      EXPECT_EQ(core.probe(kTarget + 3, 1)[0], std::byte{5});
    });
    EXPECT_EQ(rig.go(), "");
    EXPECT_TRUE(same(rig, target, kSource, 0, kTarget + 3, 9000));
    EXPECT_EQ(rig.device(0).counters().gets, 1u);
  }
}

TEST(Get, ReadsWhatIsThereWhenItIsServed) {
  // The word changes 1100 ns after launch; the request is there at 100 + 1000 ns (one hop), so a
  // picosecond decides.
  for (const Time late : {Time{0}, Time{1}}) {
    Rig rig(machine("tiny"), 2);
    rig.run(0, [&](Core& core) -> Task { co_await core.get(1, kSource, kTarget, 4); });
    rig.run(1, [&](Core& core) -> Task {
      co_await core.compute(ns(1100) - 1 + 2 * late);
      core.memory().store(kSource, std::uint32_t{1});
    });
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(rig.memory(0).load<std::uint32_t>(kTarget), late == 0 ? 1u : 0u);
  }
}

// Packets by the destination's blocks, each block late by itself: the get waits for them all.
TEST(Get, ReturnsWhenAllOfItIsVisible) {
  for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
    for (const char* ack : {"VISIBLE", "RECEIVED"}) {
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        Rig rig(machine("tiny", {{"fabric.order_scope", scope}, {"fabric.ack_at", ack}}), 4,
                {true, seed, ns(3000)});
        fill(rig, 3, kSource, 9000, 5);
        rig.run(
            0,
            [&](Core& core) -> Task {
              const fabric::Address to = kTarget + 20'000 * core.index() + 3;
              co_await core.get(3, kSource, to, 9000);
              EXPECT_TRUE(same(rig, 3, kSource, 0, to, 9000)) << scope << " seed " << seed;
            },
            3);
        EXPECT_EQ(rig.go(), "");
        EXPECT_EQ(rig.device(0).torn_read_count(), 0u);
      }
    }
  }
}

// A source that is written while it is read gives whatever was there when each packet left: that is
// its reader's problem. A row region, of which only some bytes exist, gives those.
TEST(Get, OfARowBringsWhatExistsOfIt) {
  const fabric::Carried some({{0, 40}, {600, 632}}, 1024);
  const std::vector<fabric::Region> regions{{16 * 1024, 1024, false, some},
                                            {16 * 1024, 1024, false, some}};
  const fabric::Address from = fabric::Region::base(0) + 3 * 1024;
  const fabric::Address to = fabric::Region::base(1) + 7 * 1024;
  for (const bool adversary : {false, true}) {
    Rig rig(machine("tiny"), 2, {adversary, 3, ns(3000)}, "packed", 0, 0, {}, regions);
    fill(rig, 1, from, 40, 1);
    fill(rig, 1, from + 600, 32, 2);
    rig.run(0, [&](Core& core) -> Task {
      co_await core.get(1, from, to, 632);
      core.accept(to, 632);
    });
    EXPECT_EQ(rig.go(), "");
    EXPECT_TRUE(same(rig, 1, from, 0, to, 40));
    EXPECT_TRUE(same(rig, 1, from + 600, 0, to + 600, 32));
    EXPECT_EQ(rig.device(0).torn_read_count(), 0u);
  }
}

TEST(Get, OfARowThatNobodyWroteBringsZeros) {
  const std::vector<fabric::Region> regions{{16 * 1024, 1024, false, {}}};
  Rig rig(machine("tiny"), 2, {}, "packed", 0, 0, {}, regions);
  fill(rig, 0, 1024, 1024, 9);
  rig.run(0, [&](Core& core) -> Task { co_await core.get(1, 5 * 1024, 1024, 1000); });
  EXPECT_EQ(rig.go(), "");
  EXPECT_TRUE(same(rig, 1, 5 * 1024, 0, 1024, 1000));
  EXPECT_NE(rig.memory(0).load<std::uint8_t>(1024 + 1000), 0);
}

TEST(Get, WhoeverTakesItsTargetAsCompleteMeanwhileReadsTorn) {
  Rig rig(machine("tiny"), 2);
  rig.run(
      0,
      [](Core& core) -> Task {
        if (core.index() == 0) {
          co_await core.get(1, kSource, kTarget, 8192);
          core.consume(kTarget, 8192);  // this is not
        } else {
          co_await core.compute(ns(1600));
          core.consume(kTarget + 100, 8);
        }
      },
      2);
  EXPECT_EQ(rig.go(), "");
  ASSERT_EQ(rig.device(0).torn_read_count(), 1u);
  EXPECT_EQ(rig.device(0).torn_reads()[0].address, kTarget + 100);
  EXPECT_EQ(rig.device(0).torn_reads()[0].reader_core, 1u);
}

TEST(Get, IsCounted) {
  Rig rig(machine("tiny", {{"fabric.header_bytes", "16"}}), 2);
  rig.run(0, [](Core& core) -> Task {
    co_await core.get(1, kSource, kTarget, 5000);
    co_await core.get(0, kSource, kTarget, 8);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.device(0).counters().gets, 2u);
  EXPECT_EQ(rig.device(0).counters().bytes_got, 5008u);
  // A request is a header; 5000 bytes are two packets.
  EXPECT_EQ(rig.device(0).records()[0].wire_bytes, 16u + 5000 + 2 * 16 + 16 + 8 + 16);
}

TEST(Get, OfNoBytesIsAnError) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.get(1, kSource, kTarget, 0); });
  EXPECT_THROW(rig.go(), emu::InvariantError);
}

TEST(Atomic, AddsFromManyCoresAddUp) {
  for (const char* scope : {"DEVICE_PAIR", "NONE"}) {
    Rig rig(machine("tiny", {{"fabric.order_scope", scope}}), 4, {true, 5, ns(3000)});
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      rig.run(
          rank,
          [](Core& core) -> Task {
            for (std::uint64_t i = 1; i <= 10; ++i)
              co_await core.atomic_add(2, kFlag, i * (core.index() + 1));
          },
          4);
    }
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(rig.memory(2).load<std::uint64_t>(kFlag), 4u * 55u * (1 + 2 + 3 + 4)) << scope;
    EXPECT_EQ(rig.device(0).counters().atomics, 40u);
  }
}

// --- Local verbs ---

// tiny: 50 ns per copy, 20 GB/s per core, 100 GB/s for the device, reads and writes both; 16 KiB
// chunks.
TEST(Copy, OneCoreIsBoundByItsOwnRate) {
  Rig rig(machine("tiny"), 1);
  fill(rig, 0, kSource, 40'000, 2);
  Time end = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.copy(kTarget, kSource, 40'000);
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, kLaunch + ns(50) + 2 * ps(16384, 20) + ps(40'000 - 2 * 16384, 20));
  EXPECT_TRUE(same(rig, 0, kSource, 0, kTarget, 40'000));
}

TEST(Copy, ManyCoresShareTheMemory) {
  constexpr std::uint32_t kCores = 8;
  Rig rig(machine("tiny", {{"device.cores", "8"}}), 1);
  std::vector<Time> end(kCores);
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.copy(kTarget, kSource, 16384);
        end[core.index()] = core.now();
      },
      kCores);
  EXPECT_EQ(rig.go(), "");
  for (std::uint32_t core = 0; core < kCores; ++core) {
    const Time shared = (core + 1) * ps(2 * 16384, 100);  // first come, first served
    EXPECT_EQ(end[core], kLaunch + ns(50) + std::max(shared, ps(16384, 20))) << core;
  }
}

TEST(Copy, StreamsTakeOneDirectionOfTraffic) {
  constexpr std::uint32_t kCores = 8;
  Rig rig(machine("tiny", {{"device.cores", "8"}}), 1);
  std::vector<Time> end(kCores);
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.stream(16384);
        end[core.index()] = core.now();
        co_await core.stream(0);
        EXPECT_EQ(core.now(), end[core.index()]);
      },
      kCores);
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end[7], kLaunch + ns(50) + std::max(8 * ps(16384, 100), ps(16384, 20)));
}

TEST(Copy, ReadsChunkByChunk) {
  // The second chunk is read when it is copied, so a store to it meanwhile is in the copy; one to
  // the first is not.
  Rig rig(machine("tiny"), 1);
  rig.run(
      0,
      [](Core& core) -> Task {
        if (core.index() == 0) {
          co_await core.copy(kTarget, kSource, 3 * 16384);
        } else {
          co_await core.compute(ns(50) + ps(16384, 20) + ns(1));
          core.memory().store(kSource, std::uint8_t{7});
          core.memory().store(kSource + 2 * 16384, std::uint8_t{7});
        }
      },
      2);
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.memory(0).load<std::uint8_t>(kTarget), 0);
  EXPECT_EQ(rig.memory(0).load<std::uint8_t>(kTarget + 2 * 16384), 7);
}

TEST(Barrier, ReleasesAllAfterTheLast) {
  Rig rig(machine("tiny"), 1);
  std::vector<Time> first(4), second(4);
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.compute(ns(100) * core.index());
        co_await core.barrier();
        first[core.index()] = core.now();
        co_await core.compute(ns(100) * (4 - core.index()));
        co_await core.barrier();
        second[core.index()] = core.now();
      },
      4);
  EXPECT_EQ(rig.go(), "");
  const Time cost = ns(200) + 4 * ns(10);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first[static_cast<std::size_t>(i)], kLaunch + ns(300) + cost);
    EXPECT_EQ(second[static_cast<std::size_t>(i)], kLaunch + ns(300) + cost + ns(400) + cost);
  }
  EXPECT_EQ(rig.device(0).counters().barriers, 2u);
}

TEST(Barrier, OfFewerCoresThanTheDeviceHas) {
  Rig rig(machine("tiny"), 1);
  Time end = 0;
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.barrier();
        end = core.now();
      },
      3);
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, kLaunch + ns(200) + 3 * ns(10));
}

// --- Reading ---

TEST(Consume, OfBytesUnderWayIsATornRead) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.put(1, kTarget, kSource, 8192); });
  rig.run(1, [](Core& core) -> Task {
    co_await core.compute(ns(1600));
    core.consume(kTarget + 100, 8);
  });
  EXPECT_EQ(rig.go(), "");
  ASSERT_EQ(rig.device(1).torn_read_count(), 1u);
  const fabric::TornRead& torn = rig.device(1).torn_reads()[0];
  EXPECT_EQ(torn.address, kTarget + 100);
  EXPECT_EQ(torn.bytes, 8u);
  EXPECT_EQ(torn.writer, 0u);
  EXPECT_EQ(torn.issued, kLaunch);
  EXPECT_EQ(torn.read, kLaunch + ns(1600));
  EXPECT_EQ(torn.visible, kLaunch + kIssue + 2 * ps(4096, 10) + ns(1000));  // the first packet
}

TEST(Consume, BeforeTheIssueAfterTheArrivalOrBesideIsNone) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task {
    co_await core.compute(ns(100));
    co_await core.put(1, kTarget, kSource, 8192);
  });
  rig.run(1, [](Core& core) -> Task {
    core.consume(kTarget, 8192);
    co_await core.compute(ns(1600));
    core.consume(kTarget + 8192, 64);
    core.consume(kTarget - 64, 64);
    core.probe(kTarget, 8192);  // never an error
    co_await core.compute(ns(10'000));
    core.consume(kTarget, 8192);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.device(1).torn_read_count(), 0u);
}

TEST(Consume, OfDiscardedMemoryIsAnError) {
  Rig rig(machine("tiny"), 1);
  rig.run(0, [](Core& core) -> Task {
    core.discard(kTarget, 8192);
    co_await core.compute(1);
    core.accept(kTarget + 4096, 1);
  });
  EXPECT_THROW(rig.go(), emu::InvariantError);
}

TEST(Consume, OfRewrittenMemoryIsFine) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.put(1, kTarget, kSource, 8192); });
  rig.run(1, [](Core& core) -> Task {
    core.discard(kTarget, 8192);
    co_await core.compute(ns(10'000));
    core.consume(kTarget, 8192);
  });
  EXPECT_EQ(rig.go(), "");
}

// --- Under the adversary ---

TEST(Adversary, AcknowledgementsWaitForItAndStayInBounds) {
  Time undisturbed = 0;
  bool delayed = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rig rig(machine("tiny"), 2, {seed != 0, seed, ns(5000)});
    Time acknowledged = 0;
    rig.run(0, [&](Core& core) -> Task {
      co_await core.put(1, kTarget, kSource, 9000);
      co_await core.quiet();
      acknowledged = core.now();
    });
    EXPECT_EQ(rig.go(), "");
    if (seed == 0) undisturbed = acknowledged;
    EXPECT_GE(acknowledged, undisturbed);
    EXPECT_LE(acknowledged, undisturbed + ns(5000));
    delayed = delayed || acknowledged > undisturbed + ns(2500);
  }
  EXPECT_TRUE(delayed);
}

}  // namespace
}  // namespace orrery::devices
