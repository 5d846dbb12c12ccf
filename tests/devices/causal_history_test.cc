// The causal graph of a run explains all of it, to the picosecond, whatever the machine promises
// and whatever its cores do; and what it says about a machine without a cost is what that machine
// does.
#include "devices/causal_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "devices/get_each.h"
#include "devices/remote_fetch_add.h"
#include "emu/text_config.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 0;
constexpr fabric::Address kTarget = 1 << 20;
constexpr fabric::Address kFlags = 4 << 20;
constexpr fabric::Address kCounter = 5 << 20;
constexpr fabric::Address kRead = 6 << 20;
constexpr fabric::Address kShared = 7 << 20;
constexpr fabric::Address kOfRound = (7 << 20) + (1 << 19);
constexpr std::uint32_t kCores = 3;
constexpr std::uint64_t kEntries = 1 << 20;

// Every verb there is, with cores and devices that drift apart. Waits for places depend on who
// comes first, which is another one on another machine: only with `places`.
Program everything(bool places) {
  return [places](Core& core) -> Task {
    const std::uint32_t ranks = core.ranks();
    const std::uint32_t next = (core.rank() + 1) % ranks;
    const std::uint32_t far = (core.rank() + ranks - 1) % ranks;
    const std::uint32_t lane = core.index();
    co_await core.compute(1000 * Time{core.index()} * 137 + 1000 * Time{core.rank()} * 53);
    co_await core.copy(kTarget + (8 + lane) * 65536, kSource + lane * 65536, 20'000);
    for (std::uint32_t round = 0; round < 3; ++round) {
      const auto handle = co_await core.put(next, kTarget + lane * 65536 + 100, kSource, 9'000);
      co_await core.put(far, kTarget + (4 + lane) * 65536, kSource, 600);
      co_await core.put_signal(far, kTarget + (4 + lane) * 65536, kSource, 700, kFlags + 4096, 1);
      co_await core.fence();
      co_await core.store(next, kFlags + lane * 64, round + 1);
      co_await core.store(far, kFlags + (kCores + lane) * 64, round + 1);
      const fabric::Address own = kOfRound + (round * kCores + lane) * 128;
      if (places) co_await core.store(next, own, round + 1);
      if (places) co_await core.store(far, own + 64, round + 1);
      co_await core.atomic_add(core.rank(), kCounter, 1);
      co_await core.wait_local(handle);
      if (lane == 1) co_await core.quiet();
      co_await core.barrier();
      if (lane == 2) co_await core.get(far, kSource, kRead, 5'000);
      // Flags of this round alone: from one side, and from both.
      const Place flagged[] = {{own, 4}, {own + 64, 4}};
      const auto is_flagged = [&core, &flagged](std::uint32_t place) {
        return core.probe(flagged[place].address, 1)[0] != std::byte{0};
      };
      if (places) co_await core.wait_any(flagged, is_flagged, 20'000, "a flag", nobody);
      if (places) co_await core.wait_all(flagged, is_flagged, 20'000, "both flags", nobody);
      const Piece pieces[] = {{kTarget + (16 + lane) * 65536, kSource, 300},
                              {kTarget + (16 + lane) * 65536 + 5'000, kSource + 7'000, 18'000}};
      if (places) co_await core.copy(std::span<const Piece>(pieces));
      const Slots flags{kFlags, 4, 64, 2 * kCores, 0};
      co_await core.wait_until(flags, word_at_least(round + 1), nobody);
      co_await core.stream(3'000 * (lane + 1));
      co_await core.compute(50'000);
    }
    // After the puts, whose order a shift in time would change.
    co_await core.fetch_add(kShared, 1);
    const RemoteAddition room[] = {{far, kShared + 64, 1}, {next, kShared + 64, 1}};
    auto reserve = remote_fetch_add(core, room, kShared + 128 + 64 * lane);
    co_await reserve;
    co_await core.next_kernel();
    co_await core.compute(1000 * Time{lane});
    co_await core.host_sync();
    co_await core.fetch_add(kShared, 1);
    if (lane == 0) co_await core.release();
  };
}

struct Shape {
  std::string name;
  std::string topology;
  std::uint32_t ranks;
  Overrides overrides;
};
const Shape kShapes[] = {
    {"plain", "tiny", 4, {}},
    {"no_order", "tiny", 4, {{"fabric.order_scope", "NONE"}}},
    {"received", "tiny", 4, {{"fabric.ack_at", "RECEIVED"}}},
    {"first_fragment", "tiny", 4, {{"fabric.order_kind", "FIRST_FRAGMENT"}}},
    {"spray", "tiny", 4, {{"fabric.choice_per", "PACKET"}, {"fabric.packet_bytes", "512"}}},
    {"sprayed_queues",
     "tiny",
     4,
     {{"fabric.choice_per", "PACKET"},
      {"fabric.packet_bytes", "512"},
      {"fabric.order_scope", "QUEUE_PAIR"},
      {"fabric.order_kind", "FIRST_FRAGMENT"},
      {"fabric.ack_at", "RECEIVED"},
      {"device.queue_pairs", "2"}}},
    {"core_pair", "tiny", 4, {{"fabric.order_scope", "CORE_PAIR"}}},
    {"queue_pairs", "tiny", 4, {{"fabric.order_scope", "QUEUE_PAIR"}, {"device.queue_pairs", "2"}}},
    {"acknowledgements", "tiny", 4, {{"fabric.ack_bytes", "64"}}},
    {"acknowledgements_at_once",
     "tiny",
     4,
     {{"fabric.ack_bytes", "64"}, {"fabric.ack_at", "RECEIVED"}, {"fabric.order_scope", "NONE"}}},
    {"service_core", "tiny", 4, {{"device.service_core_put_ns", "300"}}},
    {"narrow_window", "tiny", 4, {{"device.outstanding_stores", "1"}}},
    {"no_window", "tiny", 4, {{"device.outstanding_stores", "0"}}},
    {"free_stores", "tiny", 4, {{"device.core_store_gb_per_s", "0"}, {"device.issue_ns", "0"}}},
    {"free_memory", "tiny", 4, {{"device.hbm_gb_per_s", "0"}}},
    {"slow_memory", "tiny", 4, {{"device.hbm_gb_per_s", "3"}}},
    {"headers", "tiny", 3, {{"fabric.header_bytes", "64"}}},
    {"two", "tiny", 2, {}},
    {"alone", "tiny", 1, {}},
    {"mesh", "ascend950-mesh8", 5, {}},
    {"supernode", "cm384", 20, {}},
};

class Explained : public testing::TestWithParam<Shape> {
 protected:
  Machine shape() const { return machine(GetParam().topology, GetParam().overrides); }
  // Runs everything() on all ranks; they start at different times unless `together`.
  void start(Rig& rig, bool together = false) const {
    for (std::uint32_t rank = 0; rank < GetParam().ranks; ++rank) {
      rig.run(rank, everything(!together), kCores, together ? 0 : ns(40.0 * rank));
    }
    ASSERT_EQ(rig.go(), "");
  }
  Rig make(const Machine& what, const WhatIf& what_if = {}) const {
    return Rig(what, GetParam().ranks, {}, "packed", 8 << 20, kEntries, what_if);
  }
};

Time longest(Rig& rig, std::uint32_t ranks) {
  Time latency = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const KernelRecord& record = rig.device(rank).records().front();
    latency = std::max(latency, record.end - record.start);
  }
  return latency;
}

// Answers of several gets at once: each is a cause, whichever came last.
TEST(ExplainedGets, EachAnswerIsACause) {
  Rig rig(machine("tiny"), 4, {}, "packed", 8 << 20, kEntries);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    rig.run(
        rank,
        [](Core& core) -> Task {
          co_await core.compute(1000 * Time{core.index()} * 137 + 1000 * Time{core.rank()} * 53);
          std::vector<Fetch> fetches;
          for (std::uint32_t i = 0; i < 6; ++i) {
            const std::uint32_t from = (core.rank() + i + core.index()) % core.ranks();
            const fabric::Address to = kRead + (core.index() * 6 + i) * 8'192;
            fetches.push_back({from, kSource, to, 64 + 1'500 * (i % 3)});
          }
          co_await get_each(core, fetches);
          co_await core.compute(50'000);
          co_await core.get((core.rank() + 1) % core.ranks(), kSource, kRead, 640);
        },
        kCores);
  }
  ASSERT_EQ(rig.go(), "");
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  ASSERT_TRUE(history.complete);
  EXPECT_EQ(history.unexplained, 0);
  EXPECT_EQ(history.misplaced, 0);
}

TEST_P(Explained, EveryPointIsWhereItWas) {
  Rig rig = make(shape());
  start(rig);
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  ASSERT_TRUE(history.complete);
  EXPECT_EQ(history.unexplained, 0);
  EXPECT_EQ(history.misplaced, 0);
  ASSERT_EQ(history.kernels.size(), GetParam().ranks);
  for (const KernelPoints& kernel : history.kernels) {
    const KernelRecord& record = rig.device(kernel.rank).records().front();
    EXPECT_EQ(history.graph.time(kernel.start), record.start);
    EXPECT_EQ(history.graph.time(kernel.end), record.end);
    const auto shares = history.graph.shares(kernel.end, record.start);
    Time sum = 0;
    for (const Time each : shares) sum += each;
    EXPECT_EQ(sum, record.end - record.start);
  }
  // Served anew, first come, first served, everything is when it was.
  const std::vector<Time> again = history.graph.times_without(Cost::kNone);
  for (PointId point = 0; point < again.size(); ++point) {
    ASSERT_EQ(again[point], history.graph.time(point)) << "point " << point;
  }
  EXPECT_EQ(slowest(history, again, KernelRange::only(0), 0), longest(rig, GetParam().ranks));
}

TEST_P(Explained, NoCauseIsKeptUnlessAskedFor) {
  Rig with = make(shape());
  start(with);
  Rig without(shape(), GetParam().ranks);
  start(without);
  EXPECT_EQ(without.cluster().network().causal_log(), nullptr);
  EXPECT_EQ(with.cluster().digest(), without.cluster().digest());
}

// A machine without a cost takes what the graph says, for every cost that there is.
TEST_P(Explained, AMachineWithoutACostAgrees) {
  // Which plane the n-th put takes is no matter of time: with one of them only times change.
  Machine as_is = shape();
  emu::set_field(as_is, "fabric.plane_choice", "SINGLE", "test");
  Rig rig = make(as_is);
  start(rig, true);
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  const Time latency = longest(rig, GetParam().ranks);
  const auto costs = history.graph.costs();
  const auto& classes = rig.cluster().topology().link_classes;
  for (std::size_t index = 1; index < kCosts; ++index) {
    if (!costs[index]) continue;
    const auto cost = static_cast<Cost>(index);
    const CostRemoval removal = removal_of(cost);
    if (removal.align) continue;
    Machine machine = as_is;
    for (const auto& [field, value] : removal.settings) {
      emu::set_field(machine, field, value, "test");
    }
    Rig changed = make(machine, removal.what_if);
    start(changed, true);
    const Time gained = latency - longest(changed, GetParam().ranks);
    const Time estimate =
        latency - slowest(history, history.graph.times_without(cost), KernelRange::only(0), 0);
    // A sweep of the poll may end anywhere, and who waits for whom changes which acknowledgement
    // makes room.
    const Time larger = std::max(std::abs(gained), std::abs(estimate));
    const double bound = 0.15 * static_cast<double>(larger) + 0.03 * static_cast<double>(latency);
    EXPECT_NEAR(static_cast<double>(estimate), static_cast<double>(gained), bound)
        << name_of(cost, classes) << " of " << latency;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Explained, testing::ValuesIn(kShapes),
                         [](const auto& param) { return param.param.name; });

// One put, one wait for places: without the cost the wait ends as much sooner as the graph says,
// but for a sweep.
TEST(CausalHistory, AWaitForPlacesEndsSoonerWithoutItsCauses) {
  const auto run = [](Rig& rig) {
    rig.run(0, [](Core& core) -> Task { co_await core.put(3, kTarget, kSource, 5'000); });
    rig.run(3, [](Core& core) -> Task {
      const Place place{kTarget, 5'000};
      const auto there = [&core](std::uint32_t) {
        return core.probe(kTarget + 4'999, 1)[0] == std::byte{7};
      };
      co_await core.wait_any(std::span(&place, 1), there, 30'000, "a row", nobody);
    });
    rig.memory(0).store(kSource + 4'999, std::byte{7});
    ASSERT_EQ(rig.go(), "");
  };
  const auto latency = [](Rig& rig) {
    const KernelRecord& record = rig.device(3).records().front();
    return record.end - record.start;
  };
  Rig rig(machine("tiny"), 4, {}, "packed", 8 << 20, kEntries);
  run(rig);
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  const auto costs = history.graph.costs();
  int checked = 0;
  for (std::size_t index = 1; index < kCosts; ++index) {
    const CostRemoval removal = removal_of(static_cast<Cost>(index));
    if (!costs[index] || removal.align || static_cast<Cost>(index) == Cost::kPoll) continue;
    Machine changed = machine("tiny");
    for (const auto& [field, value] : removal.settings) {
      emu::set_field(changed, field, value, "test");
    }
    Rig without(changed, 4, {}, "packed", 8 << 20, 0, removal.what_if);
    run(without);
    const Time estimate = slowest(history, history.graph.times_without(static_cast<Cost>(index)),
                                  KernelRange::only(0), 0);
    EXPECT_NEAR(static_cast<double>(estimate), static_cast<double>(latency(without)), 30'000)
        << name_of(static_cast<Cost>(index), rig.cluster().topology().link_classes);
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

TEST(CausalHistory, KnowsWhatWasPut) {
  Rig rig(machine("tiny"), 4, {}, "packed", 8 << 20, kEntries);
  rig.run(0, [](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, 5'000);
    co_await core.store(3, kFlags, std::uint32_t{1});
  });
  ASSERT_EQ(rig.go(), "");
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  ASSERT_EQ(history.puts.size(), 2u);
  const PutRecord& put = history.puts[0];
  EXPECT_EQ(put.issued, ns(1000));
  EXPECT_EQ(put.target, 1u);
  EXPECT_EQ(put.bytes, 5'000u);
  EXPECT_EQ(put.switches, 1u);
  EXPECT_EQ(put.link_classes, 1u);  // device-L1
  EXPECT_EQ(history.puts[1].target, 3u);
  EXPECT_EQ(history.puts[1].bytes, 4u);
  EXPECT_EQ(history.puts[1].switches, 3u);
  EXPECT_EQ(history.puts[1].link_classes, 3u);
}

TEST(CausalHistory, ARunThatIsTooLargeIsNotExplained) {
  Rig rig(machine("tiny"), 2, {}, "packed", 8 << 20, 10);
  rig.run(0, [](Core& core) -> Task {
    for (std::uint32_t i = 0; i < 100; ++i) co_await core.store(1, kFlags, i);
  });
  ASSERT_EQ(rig.go(), "");
  const CausalHistory history = causal_history(rig.cluster(), Alignment::kNone);
  EXPECT_FALSE(history.complete);
  EXPECT_TRUE(history.kernels.empty());
}

}  // namespace
}  // namespace orrery::devices
