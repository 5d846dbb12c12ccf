// NICs and proxies: closed forms, exact to the picosecond.
#include "devices/nic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <utility>

#include "devices/device_process.h"
#include "emu/errors.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using testing::HasSubstr;

// Nodes of one device each on one leaf: NIC to leaf 500 ns and 50 GB/s, leaf to NIC the same.
std::string text_of(const std::string& rules, const std::string& nic, std::uint32_t nodes = 4) {
  return R"(
fabric {
  atomic_block_bytes: 64 packet_bytes: 4096
  scale_out_rules { )" +
         rules + R"( }
  scale_out { nodes: )" +
         std::to_string(nodes) + R"( devices_per_node: 1 nic_link { latency_ns: 500 gb_per_s: 50 } }
}
device { cores: 8 issue_ns: 7 poll_ns: 0.001 queue_pairs: 2 nic { )" +
         nic + " } }";
}
const std::string kOrdered = "order_scope: QUEUE_PAIR ack_at: RECEIVED";
const std::string kUnordered = "order_scope: NONE ack_at: VISIBLE";

constexpr emu::Time kWay = 1'000'000;  // two links
emu::Time wire(std::uint64_t bytes) { return ps(bytes, 50); }

// When device `rank`'s word at `address` became `value`.
Program sees(fabric::Address address, std::uint32_t value, emu::Time& at) {
  return [=, &at](Core& core) -> emu::Task {
    const Predicate is = word_equals(value);
    co_await core.wait_until(word_at(address), is, nobody);
    at = core.now() - 1;  // one poll
  };
}

TEST(Nic, APutTakesPostingDoorbellFetchesAndTheWay) {
  Rig rig(machine_of(text_of(kOrdered,
                             "post_ns: 10 doorbell_ns: 100 descriptor_fetch_ns: 200 "
                             "payload_fetch_ns: 300 message_ns: 5")),
          2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task { co_await core.store(1, 0, std::uint32_t{1}); });
  rig.run(1, sees(0, 1, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 615'000 + kWay + wire(4));
}

TEST(Nic, PipelinedPutsAreLimitedByTheMessageRate) {
  Rig rig(machine_of(text_of(kOrdered, "post_ns: 1 message_ns: 40")), 2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task {
    for (std::uint32_t i = 1; i <= 50; ++i) co_await core.store(1, 0, i);
  });
  rig.run(1, sees(0, 50, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 1'000 + 50 * 40'000 + kWay + wire(4));
}

TEST(Nic, PipelinedPutsAreLimitedByTheirBytes) {
  for (const double rate : {20.0, 0.0}) {  // of the NIC's reads, or of the link
    Rig rig(machine_of(text_of(kOrdered, "gb_per_s: " + std::to_string(rate))), 2);
    emu::Time seen = 0;
    rig.run(0, [](Core& core) -> emu::Task {
      for (int i = 0; i < 9; ++i) co_await core.put(1, 4096, 4096, 4096);
      co_await core.store(1, 0, std::uint32_t{1});
    });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    // The slower of the two, and the last packets on the other.
    const emu::Time all = rate == 0 ? 9 * wire(4096) : 9 * ps(4096, rate) + wire(4096);
    EXPECT_EQ(seen, all + wire(4) + kWay) << rate;
  }
}

TEST(Nic, PacketsHaveAPrice) {
  Rig rig(machine_of(text_of(kOrdered, "packet_ns: 200")), 2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task {
    co_await core.put(1, 4096, 4096, 8 * 4096);
    co_await core.store(1, 0, std::uint32_t{1});
  });
  rig.run(1, sees(0, 1, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 9 * 200'000 + kWay + wire(4));
}

// Every `window` puts a round trip: the acknowledgement of the first lets the next begin.
TEST(Nic, PipelinedPutsAreLimitedByTheWindow) {
  Rig rig(machine_of(text_of(kOrdered, "window: 4")), 2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task {
    for (std::uint32_t i = 1; i <= 20; ++i) co_await core.store(1, 0, i);
  });
  rig.run(1, sees(0, 20, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 4 * (2 * kWay + wire(4)) + kWay + 4 * wire(4));
}

// The same where the queue is full: now the core waits, and pays for posting afterwards.
TEST(Nic, PipelinedPutsAreLimitedByTheDepthOfTheQueue) {
  Rig rig(machine_of(text_of(kOrdered, "queue_depth: 1 post_ns: 30")), 2);
  emu::Time seen = 0;
  emu::Time posted = 0;
  rig.run(0, [&posted](Core& core) -> emu::Task {
    for (std::uint32_t i = 1; i <= 20; ++i) co_await core.store(1, 0, i);
    posted = core.now();
  });
  rig.run(1, sees(0, 20, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 20 * (30'000 + kWay + wire(4)) + 19 * kWay);
  EXPECT_EQ(posted, seen - kWay - wire(4));
}

TEST(Nic, CoresThatShareAQueuePairTakeTurnsForItsRoom) {
  Rig rig(machine_of(text_of(kOrdered, "queue_depth: 1")), 2);
  emu::Time seen = 0;
  rig.run(
      0,
      [](Core& core) -> emu::Task {
        core.use_queue(0);
        for (int i = 0; i < 5; ++i) co_await core.atomic_add(1, 0, 1);
      },
      8);
  rig.run(1, sees(0, 40, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 40 * (kWay + wire(8)) + 39 * kWay);
}

TEST(Nic, AFlagOnTheRequestKeepsItBehindEarlierOnes) {
  for (const bool fenced : {true, false}) {
    Rig rig(machine_of(text_of(kUnordered, "put_signal: FENCE_FLAG")), 2);
    emu::Time seen = 0;
    emu::Time left = 0;
    rig.run(0, [fenced, &left](Core& core) -> emu::Task {
      co_await core.put(1, 4096, 4096, 40'960);
      co_await core.signal(1, 0, std::uint32_t{1}, fenced);
      left = core.now();
    });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(left, 0);  // nobody waits for it
    EXPECT_EQ(seen, wire(40'960) + kWay + wire(4) + (fenced ? 2 * kWay : 0)) << fenced;
  }
}

TEST(Nic, AnAtomicTakesTheNicItsTime) {
  Rig rig(machine_of(text_of(kOrdered, "atomic_ns: 250")), 2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task { co_await core.atomic_add(1, 0, 5); });
  rig.run(1, sees(0, 5, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, kWay + wire(8) + 250'000);
}

TEST(Nic, AtomicsAndSignalsTakeTheirTurnAtTheNic) {
  for (const bool signals : {false, true}) {
    Rig rig(machine_of(text_of(kOrdered, "atomic_ns: 250 atomic_gap_ns: 40")), 2);
    emu::Time seen = 0;
    rig.run(0, [signals](Core& core) -> emu::Task {
      for (std::uint64_t i = 1; i <= 20; ++i) {
        if (signals) {
          co_await core.signal(1, 0, i, false);
        } else {
          co_await core.atomic_add(1, 0, 1);
        }
      }
    });
    rig.run(1, sees(0, 20, seen));
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(seen, kWay + wire(8) + 20 * 40'000 + 250'000) << signals;  // 40 ns > wire(8)
  }
}

TEST(Nic, AnAcknowledgementComesWhenItsDestinationIsSureOfIt) {
  Rig rig(machine_of(text_of(kOrdered, "acknowledge_ns: 700")), 2);
  emu::Time quiet = 0;
  emu::Time seen = 0;
  rig.run(0, [&quiet](Core& core) -> emu::Task {
    co_await core.store(1, 0, std::uint32_t{1});
    co_await core.quiet();
    quiet = core.now();
  });
  rig.run(1, sees(0, 1, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, kWay + wire(4));  // what is visible is so before
  EXPECT_EQ(quiet, 2 * kWay + wire(4) + 700'000);
}

TEST(Nic, ASourceMayBeReusedWhenItsPutIsAcknowledged) {
  Rig rig(machine_of(text_of(kOrdered, "post_ns: 10")), 2);
  emu::Time reused = 0;
  rig.run(0, [&reused](Core& core) -> emu::Task {
    const PutHandle handle = co_await core.put(1, 4096, 4096, 4096);
    co_await core.wait_local(handle);
    reused = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(reused, 10'000 + wire(4096) + 2 * kWay);
}

TEST(Nic, QuietWaitsForAllAndForTheCompletion) {
  Rig rig(machine_of(text_of(kUnordered, "put_signal: FENCE_FLAG completion_ns: 35")), 3);
  emu::Time quiet = 0;
  rig.run(0, [&quiet](Core& core) -> emu::Task {
    co_await core.put(1, 4096, 4096, 4096);
    co_await core.put(2, 4096, 4096, 4096);
    co_await core.quiet();
    quiet = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(quiet, 2 * wire(4096) + 2 * kWay + 35'000);
}

// The NICs stand between scale-up domains alone.
TEST(Nic, StoresStayStoresInsideADomain) {
  Rig rig(machine_of(R"(
fabric {
  atomic_block_bytes: 64 packet_bytes: 4096
  scale_out_rules { order_scope: QUEUE_PAIR }
  scale_out {
    nodes: 2 devices_per_node: 2
    scale_up { link { latency_ns: 100 gb_per_s: 100 } }
    nic_link { latency_ns: 500 gb_per_s: 50 }
  }
}
device { cores: 2 issue_ns: 7 poll_ns: 0.001 nic { post_ns: 11 doorbell_ns: 13 } })"),
          4);
  emu::Time near = 0;
  emu::Time far = 0;
  rig.run(0, [](Core& core) -> emu::Task {
    co_await core.store(1, 0, std::uint32_t{1});
    co_await core.store(2, 0, std::uint32_t{1});
  });
  rig.run(1, sees(0, 1, near));
  rig.run(2, sees(0, 1, far));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(near, 7'000 + 200'000 + ps(4, 100));
  EXPECT_EQ(far, 7'000 + 24'000 + kWay + wire(4));
}

// --- A proxy ---

TEST(Proxy, PostsRequestsOneAfterTheOther) {
  Rig rig(machine_of(
              text_of(kOrdered, "posting: PROXY post_ns: 20 doorbell_ns: 400 proxy_post_ns: 300")),
          2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task {
    for (std::uint32_t i = 1; i <= 10; ++i) co_await core.store(1, 0, i);
  });
  rig.run(1, sees(0, 10, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 420'000 + 10 * 300'000 + kWay + wire(4));
}

TEST(Proxy, ThreadsShareTheWorkByQueuePair) {
  Rig rig(machine_of(text_of(kOrdered, "posting: PROXY proxies: 2 post_ns: 20 proxy_post_ns: 300")),
          2);
  emu::Time seen[2] = {0, 0};
  rig.run(
      0,
      [](Core& core) -> emu::Task {
        for (std::uint32_t i = 1; i <= 10; ++i) {
          co_await core.store(1, core.index() * 64, i);
        }
      },
      2);
  rig.run(
      1,
      [&seen](Core& core) -> emu::Task {
        const Predicate is = word_equals(10);
        co_await core.wait_until(word_at(core.index() * 64), is, nobody);
        seen[core.index()] = core.now() - 1;
      },
      2);
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen[0], 20'000 + 10 * 300'000 + kWay + wire(4));
  EXPECT_EQ(seen[1], seen[0] + wire(4));
}

// What a fence costs is the completion of the slowest put in its scope, and everything behind it in
// the ring waits.
TEST(Proxy, AFenceTakesUntilTheSlowestPutInItsScopeIsAcknowledged) {
  // To device 1 little, to device 2 a lot; the put with its signal goes to device 1.
  const emu::Time little = wire(4096) + 2 * kWay;
  for (const std::string fence : {"DESTINATION", "ENDPOINT"}) {
    Rig rig(machine_of(text_of(kUnordered, "posting: PROXY put_signal: FENCE fence: " + fence)), 3);
    emu::Time seen = 0;
    rig.run(0,
            [](Core& core) -> emu::Task { co_await core.put_signal(1, 4096, 4096, 4096, 0, 1); });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(seen, little + kWay + wire(4)) << fence;
  }
  for (const std::string fence : {"DESTINATION", "ENDPOINT"}) {
    Rig rig(machine_of(text_of(kUnordered, "posting: PROXY put_signal: FENCE fence: " + fence)), 3);
    emu::Time seen = 0;
    rig.run(0, [](Core& core) -> emu::Task {
      co_await core.put_signal(1, 4096, 4096, 4096, 64, 1);  // posted first,
      co_await core.put(2, 4096, 4096, 409'600);             // stuck behind its fence
      co_await core.put_signal(1, 4096, 4096, 4096, 0, 1);
    });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    // The first fence; then all at once: the signal, a lot, and a put behind it on the NIC's link.
    const emu::Time first = little;
    const emu::Time second = first + wire(4) + wire(409'600) + wire(4096) + 2 * kWay;
    EXPECT_EQ(seen, second + kWay + wire(4)) << fence;
    EXPECT_EQ(rig.device(0).counters().proxy_fences, 2u);
    EXPECT_EQ(rig.device(0).counters().proxy_fence_waits, 2u);
    EXPECT_EQ(rig.device(0).counters().proxy_fence_ps, second);
  }
}

// The put to the other device is long: an endpoint's fence waits until it is acknowledged, a
// destination's lets the flag go behind it on the link.
TEST(Proxy, ADestinationsFenceDoesNotWaitForOthers) {
  emu::Time seen[2] = {0, 0};
  for (const bool endpoint : {false, true}) {
    Rig rig(
        machine_of(text_of(
            kUnordered, std::string("posting: PROXY proxy_post_ns: 1 put_signal: FENCE fence: ") +
                            (endpoint ? "ENDPOINT" : "DESTINATION"))),
        3);
    rig.run(0, [](Core& core) -> emu::Task {
      co_await core.put(1, 4096, 4096, 4096);
      co_await core.put(2, 4096, 4096, 409'600);
      core.device().fence_by_proxy(core.queue(), 1, core.now());
      co_await core.store(1, 0, std::uint32_t{1});
    });
    rig.run(1, sees(0, 1, seen[endpoint ? 1 : 0]));
    EXPECT_EQ(rig.go(), "");
  }
  const emu::Time puts = 1'000 + wire(4096) + wire(409'600);
  EXPECT_EQ(seen[0], puts + wire(4) + kWay);
  EXPECT_EQ(seen[1], puts + 2 * kWay + 1'000 + wire(4) + kWay);
}

TEST(Proxy, AFenceOfACoreCostsItTheRequestAlone) {
  Rig rig(machine_of(
              text_of(kUnordered, "posting: PROXY post_ns: 20 put_signal: FENCE fence: ENDPOINT")),
          2);
  emu::Time left = 0;
  emu::Time seen = 0;
  rig.run(0, [&left](Core& core) -> emu::Task {
    co_await core.put(1, 4096, 4096, 4096);
    co_await core.fence();
    co_await core.store(1, 0, std::uint32_t{1});
    left = core.now();
  });
  rig.run(1, sees(0, 1, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(left, 60'000);
  EXPECT_EQ(seen, 20'000 + wire(4096) + 2 * kWay + kWay + wire(4));
}

TEST(Proxy, ASignalThroughThePeersProxyWaitsForItsTurnThere) {
  Rig rig(machine_of(text_of(kOrdered,
                             "posting: PROXY signal_by: PEER_PROXY proxy_apply_ns: 150 "
                             "proxy_post_ns: 10000")),
          2);
  emu::Time seen = 0;
  rig.run(0, [](Core& core) -> emu::Task { co_await core.put_signal(1, 4096, 4096, 4096, 0, 1); });
  rig.run(1, sees(0, 1, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 20'000'000 + kWay + wire(4) + 150'000);

  // The same while the peer's thread posts for itself.
  Rig busy(machine_of(text_of(kOrdered,
                              "posting: PROXY signal_by: PEER_PROXY proxy_apply_ns: 150 "
                              "proxy_post_ns: 10000")),
           3);
  busy.run(0, [](Core& core) -> emu::Task { co_await core.put_signal(1, 4096, 4096, 4096, 0, 1); });
  busy.run(
      1,
      [&seen](Core& core) -> emu::Task {
        if (core.index() == 0) {
          for (int i = 0; i < 5; ++i) co_await core.store(2, 0, std::uint32_t{1});
        } else {
          const Predicate is = word_equals(1);
          co_await core.wait_until(word_at(0), is, nobody);
          seen = core.now() - 1;
        }
      },
      2);
  EXPECT_EQ(busy.go(), "");
  EXPECT_EQ(seen, 50'000'000 + 150'000);  // behind what was in the ring before it
}

TEST(Proxy, AHangNamesTheFenceAndWhatWaitsBehindIt) {
  const Machine slow =
      machine_of(text_of(kUnordered, "posting: PROXY put_signal: FENCE fence: ENDPOINT"));
  const emu::ProcessGroup alone;
  ClusterOptions options;
  options.ranks = 2;
  options.memory_bytes = 1 << 20;
  options.limit = kWay;  // its acknowledgement takes twice that
  Cluster cluster(alone, nullptr, slow, "test", options);
  DeviceProcess& device = cluster.device(0);
  const auto stream = [&device]() -> emu::Task {
    auto kernel = device.kernel(0, 0, 1, [](Core& core) -> emu::Task {
      co_await core.put_signal(1, 4096, 4096, 4096, 0, 1);
      co_await core.quiet();
    });
    co_await kernel;
  };
  device.start_stream(stream(), 0);
  const std::string report = cluster.run();
  EXPECT_THAT(report,
              HasSubstr("device 0 proxy thread 0 waits at a fence: 1 of its requests are not "
                        "acknowledged, 1 wait behind it"));
  EXPECT_THAT(report, HasSubstr("device 0 core 0"));
}

// One queue pair of the NIC orders what all cores post, whatever the device has.
TEST(Nic, ItsQueuePairsAreItsOwn) {
  for (const std::uint32_t pairs : {1U, 2U}) {
    int early = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const fabric::Adversary adversary{true, seed, emu::from_ns(20'000)};
      Rig rig(machine_of(text_of("order_scope: QUEUE_PAIR ack_at: VISIBLE",
                                 "queue_pairs: " + std::to_string(pairs))),
              2, adversary);
      rig.memory(0).store(4096, std::uint32_t{1});
      rig.run(
          0,
          [](Core& core) -> emu::Task {
            if (core.index() == 0) co_await core.put(1, 4096, 4096, 4096);
            co_await core.barrier();
            if (core.index() == 1) co_await core.store(1, 0, std::uint32_t{1});
          },
          2);
      rig.run(1, [&early](Core& core) -> emu::Task {
        const Predicate is = word_equals(1);
        co_await core.wait_until(word_at(0), is, nobody);
        early += core.load<std::uint32_t>(4096) != 1;
      });
      EXPECT_EQ(rig.go(), "");
    }
    if (pairs == 1) {
      EXPECT_EQ(early, 0);
    } else {
      EXPECT_GT(early, 0);
    }
  }
}

// --- Order ---

// With the adversary delaying blocks, a signal never comes before what it tells of.
TEST(NicOrder, ASignalIsNeverSeenBeforeItsData) {
  const std::string presets[][2] = {
      {kOrdered, ""},
      {kOrdered, "posting: PROXY"},
      {kOrdered, "posting: PROXY signal_by: PEER_PROXY"},
      {kUnordered, "put_signal: FENCE_FLAG"},
      {"order_scope: NONE ack_at: RECEIVED", "put_signal: FENCE_FLAG"},
      {kUnordered, "posting: PROXY put_signal: FENCE fence: ENDPOINT"},
      {kUnordered, "posting: PROXY put_signal: FENCE fence: DESTINATION"},
      {"order_scope: QUEUE_PAIR order_kind: SIGNALS ack_at: VISIBLE", ""},
      {"order_scope: QUEUE_PAIR order_kind: SIGNALS ack_at: RECEIVED",
       "posting: PROXY proxies: 2 fence: ENDPOINT"},
  };
  for (const auto& [rules, nic] : presets) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
      const fabric::Adversary adversary{true, seed, emu::from_ns(20'000)};
      Rig rig(machine_of(text_of(rules, nic)), 2, adversary);
      int early = 0;
      for (std::uint32_t at = 0; at < 9000; at += 4) {
        rig.memory(0).store(4096 + at, std::uint32_t{at + 1});
      }
      rig.run(0,
              [](Core& core) -> emu::Task { co_await core.put_signal(1, 4096, 4096, 9000, 0, 1); });
      rig.run(1, [&early](Core& core) -> emu::Task {
        const Predicate is = word_equals(1);
        co_await core.wait_until(word_at(0), is, nobody);
        for (std::uint32_t at = 0; at < 9000; at += 4) {
          early += core.load<std::uint32_t>(4096 + at) != at + 1;
        }
      });
      EXPECT_EQ(rig.go(), "");
      EXPECT_EQ(early, 0) << rules << " " << nic << " seed " << seed;
    }
  }
}

// --- Puts that count themselves ---

// The put, the atomic behind it on the link, and the time of the addition there.
TEST(PutSignalAdd, TakesThePutAndAnAtomic) {
  Rig rig(machine_of(text_of(kOrdered, "post_ns: 10 message_ns: 5 atomic_ns: 250")), 2);
  emu::Time seen = 0;
  rig.memory(1).store(0, std::uint64_t{3});
  rig.run(0, [](Core& core) -> emu::Task {
    const Piece piece{4096, 4096, 4096};
    co_await core.put_signal_add(1, piece, 0, 4);
  });
  rig.run(1, sees(0, 7, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 15'000 + wire(4096) + wire(8) + kWay + 250'000);
  EXPECT_EQ(rig.device(0).counters().puts, 1u);
}

// Additions may be the NIC's where signals are a proxy's, and the other way round; unset, they go
// together. A proxy's takes no time of the NIC's atomics.
TEST(PutSignalAdd, IsCarriedOutByWhomTheNicSays) {
  const auto seen_with = [](const std::string& by) {
    Rig rig(machine_of(text_of(kOrdered, "posting: PROXY proxy_apply_ns: 150 atomic_ns: 40 " + by)),
            2);
    emu::Time seen = 0;
    rig.run(0, [](Core& core) -> emu::Task {
      const Piece piece{4096, 4096, 4096};
      co_await core.put_signal_add(1, piece, 0, 1);
    });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    return seen - wire(4096) - wire(8) - kWay;
  };
  EXPECT_EQ(seen_with(""), 40'000);
  EXPECT_EQ(seen_with("signal_by: PEER_PROXY"), 150'000);
  EXPECT_EQ(seen_with("signal_by: PEER_PROXY add_by: NIC"), 40'000);
  EXPECT_EQ(seen_with("add_by: PEER_PROXY"), 150'000);
}

// For a NIC that adds they are two requests, for a proxy the word is immediate data of the put.
TEST(PutSignalAdd, IsOneRequestWhereAProxyCounts) {
  const auto seen_with = [](const std::string& by) {
    Rig rig(machine_of(text_of(kUnordered,
                               "posting: PROXY proxy_post_ns: 1000 put_signal: FENCE "
                               "fence: ENDPOINT add_by: " +
                                   by)),
            2);
    emu::Time seen = 0;
    rig.run(0, [](Core& core) -> emu::Task {
      const Piece piece{4096, 4096, 4096};
      co_await core.put_signal_add(1, piece, 0, 1);
    });
    rig.run(1, sees(0, 1, seen));
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(rig.device(0).counters().proxy_fences, by == "NIC" ? 1u : 0u);
    return seen;
  };
  const emu::Time put = 1'000'000 + wire(4096) + kWay;
  EXPECT_EQ(seen_with("PEER_PROXY"), put + wire(8));
  // Where nothing orders the two, the second waits until the first is acknowledged.
  EXPECT_EQ(seen_with("NIC"), put + kWay + 1'000'000 + wire(8) + kWay);
}

// Inside a domain it is one put: the word is its last packet.
TEST(PutSignalAdd, IsOnePutByStores) {
  Rig rig(machine_of(R"(
fabric { atomic_block_bytes: 64 packet_bytes: 4096
  star { devices: 2 link { latency_ns: 100 gb_per_s: 100 } } }
device { cores: 2 issue_ns: 7 poll_ns: 0.001 })"),
          2);
  emu::Time seen = 0;
  rig.memory(1).store(0, std::uint64_t{3});
  rig.run(0, [](Core& core) -> emu::Task {
    const std::array<Piece, 2> pieces = {Piece{4096, 4096, 4096}, Piece{16384, 16384, 4096}};
    co_await core.put_signal_add(1, pieces, 0, 4);
    co_await core.quiet();
  });
  rig.run(1, sees(0, 7, seen));
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 7'000 + 200'000 + 2 * ps(4096, 100) + ps(8, 100));
  EXPECT_EQ(rig.device(0).counters().puts, 1u);
}

// Of two cores that count in one word, whatever order things come in: at no time does it count a
// put that is not all there, and at the end it has counted all.
void counts_complete_puts(const std::string& rules, const std::string& text) {
  constexpr std::uint32_t kPuts = 4;  // of each of two cores
  constexpr std::uint32_t kBytes = 5000;
  constexpr fabric::Address kRows = 16384;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const fabric::Adversary adversary{true, seed, emu::from_ns(20'000)};
    Rig rig(machine_of(text), 2, adversary);
    for (std::uint32_t at = 0; at < kBytes; at += 4) rig.memory(0).store(4096 + at, ~at);
    rig.run(
        0,
        [](Core& core) -> emu::Task {
          for (std::uint32_t i = 0; i < kPuts; ++i) {
            const Piece piece{kRows + (2 * i + core.index()) * 8192, 4096, kBytes};
            co_await core.put_signal_add(1, piece, 0, 1);
          }
        },
        2);
    std::uint32_t early = 0;
    rig.run(1, [&early](Core& core) -> emu::Task {
      for (std::uint32_t n = 1; n <= 2 * kPuts; ++n) {
        const Predicate is = word_at_least(n);
        co_await core.wait_until(word_at(0), is, nobody);
        const auto counted = core.load<std::uint64_t>(0);
        std::uint32_t complete = 0;
        for (std::uint32_t put = 0; put < 2 * kPuts; ++put) {
          bool all = true;
          for (std::uint32_t at = 0; at < kBytes; at += 4) {
            all &= core.load<std::uint32_t>(kRows + put * 8192 + at) == ~at;
          }
          complete += all ? 1 : 0;
        }
        early += complete < counted ? 1 : 0;
      }
    });
    EXPECT_EQ(rig.go(), "") << rules << " seed " << seed;
    EXPECT_EQ(early, 0u) << rules << " seed " << seed;
    EXPECT_EQ(std::as_const(rig.memory(1)).load<std::uint64_t>(0), 2 * kPuts) << rules;
  }
}

TEST(PutSignalAdd, CountsCompletePutsBetweenNics) {
  const std::string presets[][2] = {
      {kOrdered, ""},
      {kOrdered, "posting: PROXY signal_by: PEER_PROXY"},
      {kUnordered, "put_signal: FENCE_FLAG"},
      {"order_scope: NONE ack_at: RECEIVED", "put_signal: FENCE_FLAG"},
      {kUnordered, "posting: PROXY put_signal: FENCE fence: ENDPOINT"},
      {kUnordered, "posting: PROXY put_signal: FENCE fence: ENDPOINT add_by: PEER_PROXY"},
      {"order_scope: NONE ack_at: RECEIVED",
       "posting: PROXY put_signal: FENCE fence: DESTINATION add_by: PEER_PROXY"},
      {"order_scope: QUEUE_PAIR order_kind: SIGNALS ack_at: VISIBLE", ""},
      {"order_scope: QUEUE_PAIR order_kind: SIGNALS ack_at: RECEIVED",
       "posting: PROXY proxies: 2 fence: ENDPOINT signal_by: PEER_PROXY"},
  };
  for (const auto& [rules, nic] : presets) counts_complete_puts(rules, text_of(rules, nic));
}

TEST(PutSignalAdd, CountsCompletePutsByStores) {
  for (const char* rules :
       {"order_scope: NONE", "order_scope: NONE ack_at: RECEIVED", "order_scope: CORE_PAIR",
        "order_scope: DEVICE_PAIR", "order_scope: DEVICE_PAIR order_kind: FIRST_FRAGMENT"}) {
    counts_complete_puts(rules, std::string(R"(
fabric { atomic_block_bytes: 16 packet_bytes: 512 )") +
                                    rules +
                                    R"( star { devices: 2 link { latency_ns: 100 gb_per_s: 100 } } }
device { cores: 2 issue_ns: 7 poll_ns: 0.001 })");
  }
}

// --- Order again ---

// Without the flag, without order, some seed shows it.
TEST(NicOrder, WithoutFenceAndOrderItIs) {
  int early = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const fabric::Adversary adversary{true, seed, emu::from_ns(20'000)};
    Rig rig(machine_of(text_of(kUnordered, "put_signal: FENCE_FLAG")), 2, adversary);
    rig.memory(0).store(4096, std::uint32_t{1});
    rig.run(0, [](Core& core) -> emu::Task {
      co_await core.put(1, 4096, 4096, 4096);
      co_await core.signal(1, 0, std::uint32_t{1}, false);
    });
    rig.run(1, [&early](Core& core) -> emu::Task {
      const Predicate is = word_equals(1);
      co_await core.wait_until(word_at(0), is, nobody);
      early += core.load<std::uint32_t>(4096) != 1;
    });
    EXPECT_EQ(rig.go(), "");
  }
  EXPECT_GT(early, 0);
}

// Only signals are ordered: later data may be there before earlier data.
TEST(NicOrder, SignalsAloneAreOrdered) {
  int overtaken = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const fabric::Adversary adversary{true, seed, emu::from_ns(20'000)};
    Rig rig(machine_of(text_of("order_scope: QUEUE_PAIR order_kind: SIGNALS", "")), 2, adversary);
    rig.memory(0).store(4096, std::uint32_t{1});
    rig.memory(0).store(8192, std::uint32_t{2});
    rig.run(0, [](Core& core) -> emu::Task {
      co_await core.put(1, 4096, 4096, 64);
      co_await core.put(1, 8192, 8192, 64);
    });
    rig.run(1, [&overtaken](Core& core) -> emu::Task {
      const Predicate is = word_equals(2);
      co_await core.wait_until(word_at(8192), is, nobody);
      overtaken += core.load<std::uint32_t>(4096) != 1;
    });
    EXPECT_EQ(rig.go(), "");
  }
  EXPECT_GT(overtaken, 0);
}

// --- Bad machines ---

TEST(NicMachine, RefusesWhatNothingOrders) {
  const auto said = [](const std::string& rules, const std::string& nic) {
    try {
      machine_of(text_of(rules, nic));
    } catch (const emu::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(said(kUnordered, ""), HasSubstr("device.nic.put_signal"));
  EXPECT_THAT(said("order_scope: QUEUE_PAIR order_kind: FIRST_FRAGMENT", ""),
              HasSubstr("device.nic.put_signal"));
  EXPECT_THAT(said(kUnordered, "put_signal: FENCE"), HasSubstr("there is no proxy"));
  EXPECT_THAT(said(kUnordered, "posting: PROXY put_signal: FENCE"), HasSubstr("device.nic.fence"));
  EXPECT_THAT(said(kOrdered, "signal_by: PEER_PROXY"), HasSubstr("there is no proxy"));
  EXPECT_THAT(said(kOrdered, "add_by: PEER_PROXY"), HasSubstr("device.nic.add_by"));
  EXPECT_THAT(said(kOrdered + " packet_bytes: 100", ""),
              HasSubstr("fabric.scale_out_rules.packet_bytes"));
  EXPECT_EQ(said(kOrdered, ""), "");
}

}  // namespace
}  // namespace orrery::devices
