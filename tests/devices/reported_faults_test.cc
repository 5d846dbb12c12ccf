// What users of real libraries reported of NICs and proxies, each as a small program: the fault,
// seen or named here, and beside it the program that is sound. The numbers are those of the
// project's notes on algorithms, 9.2 and 9.3; tests/README.md has the list of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "devices/order_check.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using fabric::Address;
using testing::AllOf;
using testing::HasSubstr;

constexpr Address kData = 4096;
constexpr Address kFlag = 64;
constexpr std::uint32_t kRow = 2048;
constexpr emu::Time kLong = emu::Time{500'000'000};  // 500 us: whatever is under way has arrived

// Nodes of one device on one leaf.
Machine nodes(const std::string& rules, const std::string& nic) {
  return machine_of(R"(
fabric {
  atomic_block_bytes: 64 packet_bytes: 1024
  scale_out_rules { )" +
                    rules + R"( }
  scale_out { nodes: 8 devices_per_node: 1 nic_link { latency_ns: 500 gb_per_s: 50 } }
}
device { cores: 8 issue_ns: 7 poll_ns: 0.001 local_atomic_ns: 50 queue_pairs: 4 nic { )" +
                    nic + " } }");
}
const std::string kQueuePair = "order_scope: QUEUE_PAIR ack_at: RECEIVED";
const std::string kUnordered = "order_scope: NONE ack_at: VISIBLE";

// One way to run a program: its values, its hang report, what the checker says.
struct Seen {
  std::vector<std::uint32_t> values;
  std::string hang;
  std::vector<Finding> findings;
};

using Start = std::function<void(Rig& rig, Seen& seen)>;

Seen run(const Machine& machine, const Start& start, std::uint64_t seed = 0,
         std::uint32_t ranks = 2) {
  const fabric::Adversary adversary{seed != 0, seed, emu::from_ns(20'000)};
  Rig rig(machine, ranks, adversary, "packed", 8 << 20, 0, {}, {}, 1 << 20);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    DeviceProcess& device = rig.device(rank);
    device.as_host([&device] {
      for (Address at = 0; at < 2 * kRow; at += 4) device.memory().store(kData + at, 7u);
    });
  }
  Seen seen;
  start(rig, seen);
  seen.hang = rig.go();
  const OrderCheck check = check_order(rig.cluster());
  EXPECT_TRUE(check.complete);
  seen.findings = check.findings;
  return seen;
}

// In how many of `seeds` runs under the adversary a value is not 7, or the run hangs.
int times_wrong(const Machine& machine, const Start& start, int seeds) {
  int wrong = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Seen seen = run(machine, start, static_cast<std::uint64_t>(seed));
    const bool right = std::all_of(seen.values.begin(), seen.values.end(),
                                   [](std::uint32_t value) { return value == 7; });
    wrong += !right || !seen.hang.empty() ? 1 : 0;
  }
  return wrong;
}

Program reader(Seen& seen) {
  return [&seen](Core& core) -> emu::Task {
    const Predicate is = word_equals(1);
    co_await core.wait_until(word_at(kFlag), is, nobody);
    seen.values.push_back(core.load<std::uint32_t>(2 * kData + kRow - 4));
  };
}

// 27 (uccl-project/uccl#430), 56 (deepseek-ai/DeepEP#137): data and the flag that tells of them go
// two ways, by two queue pairs or past the proxy that writes the flag. What a queue pair does not
// carry it does not order, however late the flag is.
TEST(ReportedFaults, N27_N56_AFlagByAnotherQueuePairThanItsData) {
  const auto start = [](std::uint32_t flag_queue) -> Start {
    return [flag_queue](Rig& rig, Seen& seen) {
      rig.run(0, [flag_queue](Core& core) -> emu::Task {
        core.use_queue(0);
        co_await core.put(1, 2 * kData, kData, kRow);
        core.use_queue(flag_queue);
        co_await core.signal(1, kFlag, std::uint32_t{1}, false);
      });
      rig.run(1, reader(seen));
    };
  };
  for (const char* signal_by : {"", "posting: PROXY proxies: 2 signal_by: PEER_PROXY"}) {
    SCOPED_TRACE(signal_by);
    const Machine machine = nodes(kQueuePair, signal_by);
    EXPECT_GT(times_wrong(machine, start(1), 20), 0);
    const Seen broken = run(machine, start(1));
    ASSERT_FALSE(broken.findings.empty());
    EXPECT_EQ(broken.findings[0].kind, FindingKind::kUnorderedRead);
    EXPECT_EQ(times_wrong(machine, start(0), 20), 0);
    EXPECT_TRUE(run(machine, start(0)).findings.empty());
  }
}

// 25 (uccl-project/uccl#387), 33 (meta-pytorch/torchcomms#840): where data take any path, only what
// counts them may tell of them: a signal that the receiver holds back, not a plain store.
TEST(ReportedFaults, N25_N33_AWordThatOvertakesDataOfUnorderedPaths) {
  const auto start = [](bool counted) -> Start {
    return [counted](Rig& rig, Seen& seen) {
      rig.run(0, [counted](Core& core) -> emu::Task {
        co_await core.put(1, 2 * kData, kData, kRow);
        if (counted) {
          co_await core.signal(1, kFlag, std::uint32_t{1}, false);
        } else {
          co_await core.store(1, kFlag, std::uint32_t{1});
        }
      });
      rig.run(1, reader(seen));
    };
  };
  const Machine machine = nodes("order_scope: QUEUE_PAIR order_kind: SIGNALS ack_at: VISIBLE", "");
  EXPECT_GT(times_wrong(machine, start(false), 20), 0);
  const Seen broken = run(machine, start(false));
  ASSERT_FALSE(broken.findings.empty());
  EXPECT_EQ(broken.findings[0].kind, FindingKind::kUnorderedRead);
  EXPECT_EQ(times_wrong(machine, start(true), 20), 0);
  EXPECT_TRUE(run(machine, start(true)).findings.empty());
}

// 28 (uccl-project/uccl#600): under pressure a flag that the peer's proxy has to write waits behind
// all that this thread has to post; one that the NIC writes does not.
TEST(ReportedFaults, N28_FlagsThroughABusyProxy) {
  const auto seen_at = [](const std::string& nic) {
    emu::Time at = 0;
    run(nodes(kQueuePair, "posting: PROXY proxy_post_ns: 1000 proxy_apply_ns: 100 " + nic),
        [&at](Rig& rig, Seen&) {
          rig.run(0, [](Core& core) -> emu::Task {
            co_await core.signal(1, kFlag, std::uint32_t{1}, false);
          });
          rig.run(
              1,
              [&at](Core& core) -> emu::Task {
                if (core.index() == 1) {
                  for (int i = 0; i < 50; ++i) co_await core.put(0, 2 * kData, kData, 64);
                  co_return;
                }
                const Predicate is = word_equals(1);
                co_await core.wait_until(word_at(kFlag), is, nobody);
                at = core.now();
              },
              2);
        });
    return at;
  };
  const emu::Time by_nic = seen_at("signal_by: NIC");
  const emu::Time by_proxy = seen_at("signal_by: PEER_PROXY");
  EXPECT_GT(by_proxy - by_nic, emu::from_ns(45'000));  // nearly all of 50 posts
  EXPECT_LT(by_nic, emu::from_ns(3'000));
}

// 30 (NVIDIA/nvshmem#75): whoever has waited for a signal may read what it tells of, without a
// flush of his own, if and only if the fabric or a fence keeps the signal behind it.
TEST(ReportedFaults, N30_NoFlushAfterTheWaitIsNeededWhereSignalsAreOrdered) {
  const Start start = [](Rig& rig, Seen& seen) {
    rig.run(0, [](Core& core) -> emu::Task {
      co_await core.put(1, 2 * kData, kData, kRow);
      co_await core.signal(1, kFlag, std::uint32_t{1}, false);
    });
    rig.run(1, reader(seen));
  };
  EXPECT_EQ(times_wrong(nodes(kQueuePair, ""), start, 20), 0);
  EXPECT_GT(times_wrong(nodes(kUnordered, "put_signal: FENCE_FLAG"), start, 20), 0);
}

// 31 (NVIDIA/nvshmem#36): a barrier that sets one word to 1 and to 2 with nothing between them.
// Where nothing orders, the 1 may come last, and stays.
TEST(ReportedFaults, N31_ABarrierThatSetsOneWordTwiceWithoutAFence) {
  const auto start = [](bool fenced) -> Start {
    return [fenced](Rig& rig, Seen&) {
      rig.run(0, [fenced](Core& core) -> emu::Task {
        co_await core.signal(1, kFlag, std::uint32_t{1}, false);
        co_await core.signal(1, kFlag, std::uint32_t{2}, fenced);
      });
      rig.run(1, [](Core& core) -> emu::Task {
        const Predicate is = word_equals(2);
        co_await core.compute(kLong);
        co_await core.wait_until(word_at(kFlag), is, nobody);
      });
    };
  };
  const Machine machine = nodes(kUnordered, "put_signal: FENCE_FLAG");
  EXPECT_GT(times_wrong(machine, start(false), 20), 0);
  std::string hang;
  for (std::uint64_t seed = 1; hang.empty() && seed <= 20; ++seed) {
    hang = run(machine, start(false), seed).hang;
  }
  EXPECT_THAT(hang, HasSubstr("device 1 core 0 (kernel, iteration 0): polls address 0x40"));
  EXPECT_THAT(hang, HasSubstr("holds 0x1, wants word equal to 0x2"));
  const Seen broken = run(machine, start(false));
  ASSERT_FALSE(broken.findings.empty());
  EXPECT_EQ(broken.findings[0].kind, FindingKind::kUnorderedOverwrite);
  EXPECT_EQ(times_wrong(machine, start(true), 20), 0);
  EXPECT_TRUE(run(machine, start(true)).findings.empty());
}

// 32 (openshmem-org/tests-sos#22): two puts to one array without a fence; the receiver waits for
// the last element of the second.
TEST(ReportedFaults, N32_TwoPutsToOnePlaceWithoutAFence) {
  const auto start = [](bool fenced) -> Start {
    return [fenced](Rig& rig, Seen& seen) {
      rig.run(0, [fenced](Core& core) -> emu::Task {
        core.write(3 * kData + kRow - 4, std::uint32_t{6});
        co_await core.put(1, 2 * kData, 3 * kData, kRow);
        if (fenced) co_await core.quiet();
        co_await core.put(1, 2 * kData, kData, kRow);
      });
      rig.run(1, [&seen](Core& core) -> emu::Task {
        co_await core.compute(kLong);
        seen.values.push_back(core.load<std::uint32_t>(2 * kData + kRow - 4));
      });
    };
  };
  const Machine machine = nodes(kUnordered, "put_signal: FENCE_FLAG");
  EXPECT_GT(times_wrong(machine, start(false), 20), 0);
  const Seen broken = run(machine, start(false));
  const bool named = std::any_of(
      broken.findings.begin(), broken.findings.end(),
      [](const Finding& finding) { return finding.kind == FindingKind::kUnorderedOverwrite; });
  EXPECT_TRUE(named);
  EXPECT_EQ(times_wrong(machine, start(true), 20), 0);
}

// 36 (deepseek-ai/DeepEP#423): a barrier over atomics that one device never joins, since its group
// is another. Everybody else is named, with the count that there is.
TEST(ReportedFaults, N36_ABarrierThatADeviceNeverJoins) {
  const auto start = [](std::uint32_t joining) -> Start {
    return [joining](Rig& rig, Seen&) {
      for (std::uint32_t rank = 0; rank < joining; ++rank) {
        rig.run(rank, [](Core& core) -> emu::Task {
          for (std::uint32_t peer = 0; peer < core.ranks(); ++peer)
            co_await core.atomic_add(peer, kFlag, 1);
          const Predicate all = word_equals(core.ranks());
          const auto writer = [](std::uint32_t) { return std::string("every device"); };
          co_await core.wait_until(word_at(kFlag), all, writer);
        });
      }
    };
  };
  const Machine machine = nodes(kQueuePair, "");
  EXPECT_EQ(run(machine, start(4), 0, 4).hang, "");
  const std::string hang = run(machine, start(3), 0, 4).hang;
  for (const char* device : {"device 0 core 0", "device 1 core 0", "device 2 core 0"})
    EXPECT_THAT(hang, HasSubstr(device));
  EXPECT_THAT(hang, AllOf(HasSubstr("holds 0x3, wants word equal to 0x4"),
                          HasSubstr("expected writer: every device")));
}

// 44 (deepseek-ai/DeepEP#181): two cores post through one ring and take their slots without an
// atomic: one request replaces the other, and its receiver waits for ever.
TEST(ReportedFaults, N44_TwoCoresTakeOneSlotOfARing) {
  constexpr Address kNext = 512;
  const auto start = [](bool atomic) -> Start {
    return [atomic](Rig& rig, Seen&) {
      rig.run(
          0,
          [atomic](Core& core) -> emu::Task {
            core.use_queue(0);
            std::uint32_t slot = 0;
            if (atomic) {
              slot = co_await core.fetch_add(kNext, 1);
            } else {
              slot = core.load<std::uint32_t>(kNext);
              co_await core.compute(emu::from_ns(50));  // between its load and its store
              core.write(kNext, slot + 1);
            }
            co_await core.store(1, kFlag + 4 * slot, std::uint32_t{1});
          },
          2);
      rig.run(1, [](Core& core) -> emu::Task {
        const Predicate is = word_equals(1);
        const Slots both{kFlag, 4, 4, 2, 0};
        co_await core.wait_until(both, is, nobody);
      });
    };
  };
  const Machine machine = nodes(kQueuePair, "");
  const Seen broken = run(machine, start(false));
  EXPECT_THAT(broken.hang, HasSubstr("(slot 1 of 2)"));
  ASSERT_FALSE(broken.findings.empty());
  EXPECT_EQ(broken.findings[0].second.device, 0u);
  const Seen sound = run(machine, start(true));
  EXPECT_EQ(sound.hang, "");
  EXPECT_TRUE(sound.findings.empty());
}

// 53 (uccl-project/uccl#505): seven senders and one receiver: the slowest waits for all others at
// the receiver's link, exactly.
TEST(ReportedFaults, N53_TheTailOfAnIncast) {
  for (const std::uint32_t senders : {1u, 3u, 7u}) {
    emu::Time last = 0;
    run(
        nodes(kQueuePair, ""),
        [senders, &last](Rig& rig, Seen&) {
          for (std::uint32_t rank = 1; rank <= senders; ++rank) {
            rig.run(rank, [](Core& core) -> emu::Task {
              const std::uint32_t slot = core.rank();
              co_await core.put(0, 2 * kData + slot * kRow, kData, kRow);
              co_await core.signal(0, kFlag + 4 * slot, std::uint32_t{1}, false);
            });
          }
          rig.run(0, [senders, &last](Core& core) -> emu::Task {
            const Predicate is = word_equals(1);
            const Slots all{kFlag + 4, 4, 4, senders, 0};
            co_await core.wait_until(all, is, nobody);
            last = core.now();
          });
        },
        0, 8);
    // Two packets of 1,024 bytes and a word from each, one after the other, behind the first way.
    const emu::Time each = 2 * ps(1024, 50) + ps(4, 50);
    EXPECT_NEAR(last, 2 * emu::from_ns(500) + senders * each, 2 * senders) << senders;  // polls
  }
}

// 58 (deepseek-ai/DeepEP#414): two libraries, two barriers; one device enters them in the other
// order. The report names both devices, and that each waits for the other.
TEST(ReportedFaults, N58_TwoCommunicatorsInDifferentOrder) {
  constexpr Address kFirst = 64;
  constexpr Address kSecond = 128;
  const auto start = [](bool same) -> Start {
    return [same](Rig& rig, Seen&) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        rig.run(rank, [same](Core& core) -> emu::Task {
          const bool turned = !same && core.rank() == 1;
          const std::uint32_t peer = 1 - core.rank();
          const Predicate is = word_equals(1);
          const auto writer = [peer](std::uint32_t) { return "device " + std::to_string(peer); };
          for (const Address flag : {turned ? kSecond : kFirst, turned ? kFirst : kSecond}) {
            co_await core.signal(peer, flag, std::uint32_t{1}, false);
            co_await core.wait_until(word_at(flag), is, writer);
          }
        });
      }
    };
  };
  const Machine machine = nodes(kQueuePair, "");
  EXPECT_EQ(run(machine, start(true)).hang, "");
  const std::string hang = run(machine, start(false)).hang;
  EXPECT_THAT(hang, HasSubstr("device 0 core 0 (kernel, iteration 0): polls address 0x40"));
  EXPECT_THAT(hang, HasSubstr("device 1 core 0 (kernel, iteration 0): polls address 0x80"));
  EXPECT_THAT(
      hang, AllOf(HasSubstr("expected writer: device 1"), HasSubstr("expected writer: device 0")));
}

}  // namespace
}  // namespace orrery::devices
