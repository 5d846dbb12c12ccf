// Paths that can be followed by hand on tiny: 10 bytes/ns everywhere, 500 ns per link, launch 1000
// ns, issue 100 ns, polls of 20 ns.
#include "devices/critical_path.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 0;
constexpr fabric::Address kTarget = 1 << 20;
constexpr fabric::Address kFlag = 2 << 20;

struct Path {
  std::uint32_t rank = 0;
  std::map<std::string, Time> parts;  // those that are not zero
  Time sum = 0;
  std::vector<PathStep> steps;
};

Path path_of(Rig& rig) {
  const CriticalPath path = critical_path(rig.cluster(), KernelRange::only(0), 0);
  const std::vector<std::string> names = part_names(rig.cluster().topology());
  EXPECT_EQ(path.parts.size(), names.size());
  Path out{path.rank, {}, 0, path.steps};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_GE(path.parts[i], 0) << names[i];
    if (path.parts[i] != 0) out.parts[names[i]] = path.parts[i];
    out.sum += path.parts[i];
  }
  const KernelRecord& record = rig.device(path.rank).records().front();
  EXPECT_EQ(out.sum, record.end - record.start);
  // Steps follow each other without gaps from the kernel's start to its end.
  EXPECT_EQ(out.steps.front().from, record.start);
  EXPECT_EQ(out.steps.back().to, record.end);
  for (std::size_t i = 1; i < out.steps.size(); ++i)
    EXPECT_EQ(out.steps[i].from, out.steps[i - 1].to);
  return out;
}

Program put_and_flag() {
  return [](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, 4096);
    co_await core.store(1, kFlag, std::uint32_t{1});
  };
}
Program wait_for_flag() {
  return
      [](Core& core) -> Task { co_await core.wait_until(word_at(kFlag), word_equals(1), nobody); };
}

TEST(CriticalPath, FollowsAFlagToItsSender) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, put_and_flag());
  rig.run(1, wait_for_flag());
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.rank, 1u);
  // The flag took the other plane and was there first; it owes its visibility to the put: 409.6 ns
  // in the pipe and 409.6 on the wire. Visible at 1000 + 100 + 819.2 + 1000 = 2919.2 ns; sweeps end
  // every 20 ns.
  EXPECT_EQ(path.parts, (std::map<std::string, Time>{{"launch", ns(1000)},
                                                     {"issue", ns(100)},
                                                     {"serialisation", ns(819.2)},
                                                     {"hop_latency", ns(1000)},
                                                     {"poll", ns(2940 - 2919.2)}}));
  EXPECT_EQ(path.steps.front().rank, 0u);
  EXPECT_EQ(path.steps.back().rank, 1u);
  const std::vector<std::string> names = part_names(rig.cluster().topology());
  for (const PathStep& step : path.steps) {
    const bool on_its_way =
        names[step.part] == "hop_latency" || names[step.part] == "serialisation";
    const bool at_receiver = on_its_way || names[step.part] == "poll";
    EXPECT_EQ(step.rank, at_receiver ? 1u : 0u) << names[step.part];
    EXPECT_EQ(step.source, on_its_way ? 0u : step.rank) << names[step.part];
  }
}

TEST(CriticalPath, ALatePeerIsSo) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, put_and_flag(), 1, ns(5000));
  rig.run(1, wait_for_flag());
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.rank, 1u);
  EXPECT_EQ(path.parts.at("peer_late"), ns(5000));
  EXPECT_EQ(path.parts.at("launch"), ns(1000));
}

TEST(CriticalPath, WhatHappenedBeforeTheOwnStartIsCutOff) {
  // The receiver starts when the put is on the wire: 1000 + 100 + 409.6 + 409.6 ns, then 500 of
  // 1000 ns.
  Rig rig(machine("tiny"), 2);
  rig.run(0, put_and_flag());
  rig.run(
      1,
      [](Core& core) -> Task {
        co_await core.compute(ns(500));
        co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
      },
      1, ns(2419.2));
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.rank, 1u);
  // Visible at 2919.2 ns, while this kernel still launches: nothing of the path is the peer's.
  EXPECT_EQ(path.parts, (std::map<std::string, Time>{
                            {"launch", ns(1000)}, {"compute", ns(500)}, {"poll", ns(20)}}));
}

TEST(CriticalPath, CutInTheMiddleOfAJourney) {
  Rig rig(machine("tiny", {{"device.launch_ns", "1"}}), 2);
  rig.run(0, put_and_flag());  // visible at 1920.2 ns
  rig.run(1, wait_for_flag(), 1, ns(1500));
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  ASSERT_EQ(path.rank, 1u);
  EXPECT_EQ(path.parts.at("hop_latency"), ns(1920.2 - 1500));
  EXPECT_EQ(path.parts.count("issue"), 0u);
  EXPECT_EQ(path.parts.count("launch"), 0u);
}

TEST(CriticalPath, QueueingByLinkClass) {
  // Three devices of two nodes put to the fourth over one plane: two share their node's uplink.
  Rig rig(machine("tiny", {{"fabric.plane_choice", "SINGLE"}}), 4);
  const Program put = [](Core& core) -> Task {
    co_await core.put(3, kTarget + core.rank() * 4096, kSource, 4096);
    co_await core.store(3, kFlag + core.rank() * 64, std::uint32_t{1});
  };
  for (std::uint32_t rank = 0; rank < 3; ++rank) rig.run(rank, put);
  rig.run(3, [](Core& core) -> Task {
    co_await core.wait_until(Slots{kFlag, 4, 64, 3, 0}, word_equals(1), nobody);
  });
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.rank, 3u);
  EXPECT_EQ(path.parts.at("hop_latency"), ns(2000));
  // Rank 1's flag waits for its own put at the device's link, until 1100 + 2 * 409.6 ns since it
  // came to that at 1510; then at the uplink, for its put and rank 0's flag, which waited for rank
  // 0's put.
  EXPECT_EQ(path.parts.at("queueing_device-L1"), ns(409.2));
  EXPECT_EQ(path.parts.at("queueing_L1-L2"), ns(410));
}

TEST(CriticalPath, BarrierLeadsToTheLastCore) {
  Rig rig(machine("tiny"), 1);
  rig.run(
      0,
      [](Core& core) -> Task {
        co_await core.compute(core.index() == 2 ? ns(700) : ns(50));
        co_await core.barrier();
        if (core.index() == 0) co_await core.copy(kTarget, kSource, 1000);
      },
      4);
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.parts, (std::map<std::string, Time>{{"launch", ns(1000)},
                                                     {"compute", ns(700)},
                                                     {"barrier_wait", ns(240)},
                                                     {"local_copy", ns(50 + 50)}}));
}

TEST(CriticalPath, AFullWindowLeadsToTheAcknowledgement) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task {
    for (int i = 0; i < 5; ++i) co_await core.store(1, kFlag, i);
  });
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  // The fifth store waits for the first one's acknowledgement, 2000 ns of latency and 0.8 in pipe
  // and link.
  EXPECT_EQ(path.parts, (std::map<std::string, Time>{{"launch", ns(1000)},
                                                     {"issue", ns(100 + 100)},
                                                     {"serialisation", ns(0.8)},
                                                     {"hop_latency", ns(2000)}}));
}

TEST(CriticalPath, GetsAndQuiets) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task {
    co_await core.get(1, kSource, kTarget, 4096);
    co_await core.put(1, kTarget, kSource, 4096);
    co_await core.quiet();
  });
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.parts, (std::map<std::string, Time>{{"launch", ns(1000)},
                                                     {"issue", ns(200)},
                                                     {"serialisation", ns(409.6 * 3)},
                                                     {"hop_latency", ns(4000)}}));
}

TEST(CriticalPath, ASatisfiedWaitIsAPoll) {
  Rig rig(machine("tiny"), 1);
  rig.run(0, [](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_equals(0), nobody);
  });
  ASSERT_EQ(rig.go(), "");
  EXPECT_EQ(path_of(rig).parts,
            (std::map<std::string, Time>{{"launch", ns(1000)}, {"poll", ns(20)}}));
}

// A broken algorithm: what ends a wait of the first call comes from the second call of the peer,
// and from a core that the first did not even have.
TEST(CriticalPath, APacketOfAnotherCallCountsAsLate) {
  Rig rig(machine("tiny"), 2);
  const auto two_calls = [](DeviceProcess& device) -> Task {
    auto first = device.kernel(0, 0, 1, [](Core& core) -> Task { co_await core.compute(ns(10)); });
    co_await first;
    auto second = device.kernel(1, 0, 4, [](Core& core) -> Task {
      if (core.index() == 3) co_await core.store(1, kFlag, std::uint32_t{1});
    });
    co_await second;
  };
  rig.device(0).start_stream(two_calls(rig.device(0)), 0);
  rig.run(1, wait_for_flag());
  ASSERT_EQ(rig.go(), "");
  const Path path = path_of(rig);
  EXPECT_EQ(path.rank, 1u);
  EXPECT_EQ(path.parts.at("peer_late"), ns(1000 + 10 + 1000));
  EXPECT_EQ(path.parts.at("hop_latency"), ns(1000));
}

TEST(CriticalPath, OfAnAdversarysRunSumsUpToo) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Rig rig(machine("tiny"), 4, {true, seed, ns(2000)});
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      rig.run(
          rank,
          [](Core& core) -> Task {
            for (std::uint32_t peer = 0; peer < 4; ++peer) {
              co_await core.put(peer, kTarget + core.rank() * 8192, kSource, 6000);
              co_await core.fence();
              co_await core.store(peer, kFlag + core.rank() * 64, std::uint32_t{1});
            }
            co_await core.wait_until(Slots{kFlag, 4, 64, 4, 0}, word_equals(1), nobody);
          },
          1, static_cast<Time>(emu::mix64(seed + rank) % 3'000'000));
    }
    ASSERT_EQ(rig.go(), "");
    path_of(rig);
  }
}

}  // namespace
}  // namespace orrery::devices
