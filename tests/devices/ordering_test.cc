// Order and completion between devices: queue pairs, fences, signals, acknowledgements, spray; and
// what claims about puts are held against. What programs may see is in tests/litmus/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 0;
constexpr fabric::Address kTarget = 1 << 20;
constexpr fabric::Address kFar = 2 << 20;
constexpr fabric::Address kFlag = 3 << 20;

std::uint32_t word(Core& core, fabric::Address address) {
  std::uint32_t value;
  std::memcpy(&value, core.probe(address, 4).data(), 4);
  return value;
}

void fill(Core& core, fabric::Address address, std::uint32_t bytes) {
  for (std::uint32_t at = 0; at < bytes; at += 4) core.write(address + at, std::uint32_t{1});
}

// --- Truth ---

// Two pieces of 4,096 bytes leave 409.6 ns apart; the first may be taken before the second is
// there.
TEST(TornRead, OfSeveralPiecesIsFoundPieceByPiece) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task {
    const Piece pieces[] = {{kFar, kSource, 4096}, {kTarget, kSource, 4096}};
    fill(core, kSource, 4096);
    co_await core.put(1, pieces);
  });
  rig.run(1, [](Core& core) -> Task {
    co_await core.wait_until(word_at(kFar), word_equals(1), nobody);
    core.consume(kFar, 4096);
    core.consume(kTarget + 1000, 100);
    co_await core.compute(ns(1000));
    core.consume(kTarget, 4096);
  });
  ASSERT_EQ(rig.go(), "");
  ASSERT_EQ(rig.device(1).torn_read_count(), 1u);
  const fabric::TornRead& torn = rig.device(1).torn_reads()[0];
  EXPECT_EQ(torn.address, kTarget + 1000);
  EXPECT_EQ(torn.missing, kTarget + 1000);
  EXPECT_EQ(torn.bytes, 100u);
  EXPECT_EQ(torn.writer, rig.device(0).node());
}

// Blocks that are there may be taken although the rest of their put is still on its way.
TEST(TornRead, IsOnlyOfBytesThatWereMissing) {
  for (const fabric::Address claimed : {kTarget, kTarget + 4096}) {
    Rig rig(machine("tiny"), 2);
    rig.run(0, [](Core& core) -> Task {
      fill(core, kSource, 8192);
      co_await core.put(1, kTarget, kSource, 8192);
    });
    rig.run(1, [claimed](Core& core) -> Task {
      co_await core.wait_until(word_at(kTarget), word_equals(1), nobody);
      core.consume(claimed, 4096);
    });
    ASSERT_EQ(rig.go(), "");
    EXPECT_EQ(rig.device(1).torn_read_count(), claimed == kTarget ? 0u : 1u);
  }
}

// Records of 480 bytes and 32 of flag, as token-flag fusion sends them, polled and taken.
std::uint64_t torn_rows(std::uint32_t block_bytes, std::uint64_t seed) {
  constexpr std::uint32_t kRecords = 3;
  constexpr std::uint32_t kRows = 6;
  Rig rig(machine("tiny", {{"fabric.atomic_block_bytes", std::to_string(block_bytes)}}), 2,
          {true, seed, ns(10'000)});
  rig.run(0, [](Core& core) -> Task {
    fill(core, kSource, kRecords * 512);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      co_await core.put(1, kTarget + row * 4096, kSource, kRecords * 512);
    }
  });
  rig.run(1, [](Core& core) -> Task {
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const Slots flags{kTarget + row * 4096 + 508, 4, 512, kRecords, 0};
      co_await core.wait_until(flags, word_equals(1), nobody);
      core.accept(kTarget + row * 4096, kRecords * 512);
    }
  });
  EXPECT_EQ(rig.go(), "");
  return rig.device(1).torn_read_count();
}

TEST(TornRead, FlagsInRecordsAreCaughtBelowTheirBlockSizeAndNeverAtIt) {
  constexpr std::uint64_t kSeeds = 1000;
  for (const std::uint32_t block : {256u, 128u, 64u, 32u}) {
    std::uint64_t caught = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
      caught += torn_rows(block, seed) > 0 ? 1 : 0;
    EXPECT_GE(caught, kSeeds * 99 / 100) << block;
  }
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(torn_rows(512, seed), 0u) << seed;
  }
}

// --- Acknowledgements ---

// From the first put to the end of a quiet.
Time round_trip(const Overrides& overrides, std::uint32_t bytes) {
  Rig rig(machine("tiny", overrides), 2);
  Time took = 0;
  rig.run(0, [&took, bytes](Core& core) -> Task {
    const Time begin = core.now();
    co_await core.put(1, kTarget, kSource, bytes);
    co_await core.quiet();
    took = core.now() - begin;
  });
  EXPECT_EQ(rig.go(), "");
  return took;
}

TEST(Acknowledgement, TakesTheLatencyOfTheWayBackAndItsBytesIfItHasAny) {
  const Time plain = round_trip({}, 4096);
  EXPECT_EQ(plain, ns(100) + ps(4096, 10) + ps(4096, 10) + 2 * ns(1000));
  EXPECT_EQ(round_trip({{"fabric.ack_bytes", "64"}}, 4096), plain + ps(64, 10));
  EXPECT_EQ(round_trip({{"fabric.ack_bytes", "64"}, {"fabric.header_bytes", "16"}}, 4096),
            plain + ps(80, 10) + ps(4112, 10) - ps(4096, 10));
}

TEST(Acknowledgement, WithBytesQueuesBehindPutsOfTheOtherDirection) {
  const auto quiet_under_load = [](const char* ack_bytes) {
    Rig rig(machine("tiny", {{"fabric.ack_bytes", ack_bytes}, {"fabric.plane_choice", "SINGLE"}}),
            2);
    Time took = 0;
    rig.run(0, [&took](Core& core) -> Task {
      co_await core.put(1, kTarget, kSource, 64);
      co_await core.quiet();
      took = core.now();
    });
    rig.run(1, [](Core& core) -> Task { co_await core.put(0, kTarget, kSource, 40'960); });
    EXPECT_EQ(rig.go(), "");
    return took;
  };
  EXPECT_GT(quiet_under_load("64"), quiet_under_load("0") + ns(100));
}

TEST(Acknowledgement, OfAPutToOneselfComesBackToo) {
  for (const char* bytes : {"0", "64"}) {
    Rig rig(machine("tiny", {{"fabric.ack_bytes", bytes}}), 1);
    Time took = 0;
    rig.run(0, [&took](Core& core) -> Task {
      co_await core.store(0, kFlag, std::uint32_t{1});
      co_await core.quiet();
      took = core.now();
    });
    ASSERT_EQ(rig.go(), "");
    EXPECT_EQ(took, ns(1000 + 100 + 100 + 100) + ps(4, 10)) << bytes;  // launch, issue, there, back
  }
}

// --- Fences ---

TEST(Fence, DrainsWhereOnlyFirstFragmentsAreOrdered) {
  for (const auto& [kind, drains] : {std::pair{"WHOLE", 0u}, std::pair{"FIRST_FRAGMENT", 1u}}) {
    Rig rig(machine("tiny", {{"fabric.order_kind", kind}}), 2);
    rig.run(0, [](Core& core) -> Task {
      co_await core.put(1, kTarget, kSource, 64);
      co_await core.fence();
    });
    ASSERT_EQ(rig.go(), "");
    EXPECT_EQ(rig.device(0).counters().drains, drains) << kind;
    EXPECT_EQ(rig.device(0).counters().fences, 1u);
  }
}

// Acknowledged at reception, the first put may be late by ten microseconds; what comes after the
// fence waits for it at the destination, however many epochs and cores there are.
TEST(Fence, HoldsItsOrderAtTheDestinationWhereReceptionIsAcknowledged) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rig rig(machine("tiny", {{"fabric.order_scope", "NONE"}, {"fabric.ack_at", "RECEIVED"}}), 2,
            {true, seed, ns(10'000)});
    rig.run(
        0,
        [](Core& core) -> Task {
          for (std::uint32_t i = 1; i <= 5; ++i) {
            co_await core.store(1, kTarget + core.index() * 4096, i);
            co_await core.fence();
          }
        },
        3);
    rig.run(
        1,
        [](Core& core) -> Task {
          const fabric::Address mine = kTarget + core.index() * 4096;
          std::uint32_t before = 0;
          while (before < 5) {
            co_await core.wait_until(word_at(mine), word_differs(before), nobody);
            EXPECT_GT(word(core, mine), before);
            before = word(core, mine);
          }
        },
        3);
    ASSERT_EQ(rig.go(), "") << seed;
  }
}

// --- Queue pairs ---

// A long put of core 0 and a flag of core 1, issued later: seen before the data or after?
bool flag_overtakes(const Overrides& overrides, std::uint32_t queue) {
  Overrides all = overrides;
  all.emplace_back("fabric.order_scope", "QUEUE_PAIR");
  Rig rig(machine("tiny", all), 2);
  rig.run(
      0,
      [queue](Core& core) -> Task {
        core.use_queue(queue == 99 ? core.index() : queue);
        if (core.index() == 0) {
          fill(core, kSource, 65536);
          co_await core.put(1, kTarget, kSource, 65536);
        } else {
          co_await core.compute(ns(50));
          co_await core.store(1, kFlag, std::uint32_t{1});
        }
      },
      2);
  bool overtaken = false;
  rig.run(1, [&overtaken](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
    overtaken = word(core, kTarget + 65532) == 0;
  });
  EXPECT_EQ(rig.go(), "");
  return overtaken;
}

TEST(QueuePair, KeepsTheOrderOfAllThatGoesThroughIt) {
  EXPECT_TRUE(flag_overtakes({}, 99));  // each core has its own
  EXPECT_FALSE(flag_overtakes({}, 0));
  EXPECT_FALSE(flag_overtakes({}, 3));
  EXPECT_FALSE(flag_overtakes({{"device.queue_pairs", "1"}}, 99))
      << "all cores share the one there is";
  EXPECT_TRUE(flag_overtakes({{"device.queue_pairs", "2"}}, 99));
}

TEST(QueuePair, IsTheCoresOwnAgainInTheNextKernel) {
  Rig rig(machine("tiny"), 1);
  rig.run(
      0,
      [](Core& core) -> Task {
        EXPECT_EQ(core.queue(), core.index());
        core.use_queue(7);
        EXPECT_EQ(core.queue(), 7u);
        co_return;
      },
      4);
  ASSERT_EQ(rig.go(), "");
  rig.run(
      0,
      [](Core& core) -> Task {
        EXPECT_EQ(core.queue(), core.index());
        co_return;
      },
      4, ns(5000));
  ASSERT_EQ(rig.go(), "");
}

// --- Signals ---

TEST(Signal, IsOnePutAndWaitsForAllOfItsBytes) {
  for (const char* kind : {"WHOLE", "FIRST_FRAGMENT"}) {
    for (const char* scope : {"DEVICE_PAIR", "NONE"}) {
      for (std::uint64_t seed = 0; seed <= 20; ++seed) {
        Rig rig(machine("tiny", {{"fabric.order_kind", kind}, {"fabric.order_scope", scope}}), 2,
                {seed > 0, seed, ns(10'000)});
        rig.run(0, [](Core& core) -> Task {
          fill(core, kSource, 10'000);
          co_await core.put_signal(1, kTarget, kSource, 10'000, kFlag, 42);
          co_await core.quiet();
        });
        rig.run(1, [](Core& core) -> Task {
          co_await core.wait_until(word_at(kFlag), word_equals(42), nobody);
          core.consume(kTarget, 10'000);
          for (std::uint32_t at = 0; at < 10'000; at += 4) EXPECT_EQ(word(core, kTarget + at), 1u);
        });
        ASSERT_EQ(rig.go(), "");
        EXPECT_EQ(rig.device(1).torn_read_count(), 0u);
        EXPECT_EQ(rig.device(0).counters().puts, 1u);
        EXPECT_EQ(rig.device(0).counters().bytes_put, 10'004u);
      }
    }
  }
}

// --- Spray ---

// Two switches between two devices, one ten times slower. Packet by packet over both, the last
// packets of a put overtake its first, and a flag overtakes the data: with no adversary at all.
TEST(Spray, ReordersByItselfWherePlanesAreUnequal) {
  const std::string text = R"(
    fabric {
      atomic_block_bytes: 64 packet_bytes: 512 order_scope: %
      plane_choice: ROUND_ROBIN choice_per: PACKET
      explicit_graph {
        devices: ["a", "b"] switches: ["fast", "slow"]
        cables { a: "a" b: "fast" link { latency_ns: 100 gb_per_s: 10 } }
        cables { a: "b" b: "fast" link { latency_ns: 100 gb_per_s: 10 } }
        cables { a: "a" b: "slow" link { latency_ns: 100 gb_per_s: 1 } }
        cables { a: "b" b: "slow" link { latency_ns: 100 gb_per_s: 1 } }
      }
    }
    device { cores: 1 poll_ns: 1 })";
  for (const auto& [scope, reorders] : {std::pair{"NONE", true}, std::pair{"DEVICE_PAIR", false}}) {
    std::string shape = text;
    shape.replace(shape.find('%'), 1, scope);
    bool old_data = false;
    for (const fabric::Address flag : {kFlag, kFlag + 64}) {  // one takes the fast plane
      Rig rig(machine_of(shape), 2);
      rig.run(0, [](Core& core) -> Task {
        fill(core, kSource, 8192);
        co_await core.put(1, kTarget, kSource, 8192);
        co_await core.store(1, kFlag, std::uint32_t{1});
        co_await core.store(1, kFlag + 64, std::uint32_t{1});
      });
      rig.run(1, [&old_data, flag](Core& core) -> Task {
        co_await core.wait_until(word_at(flag), word_equals(1), nobody);
        for (std::uint32_t at = 0; at < 8192; at += 4) {
          old_data = old_data || word(core, kTarget + at) == 0;
        }
      });
      ASSERT_EQ(rig.go(), "");
    }
    EXPECT_EQ(old_data, reorders) << scope;
  }
}

}  // namespace
}  // namespace orrery::devices
