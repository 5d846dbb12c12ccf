// Times of puts against formulas worked out by hand from the numbers in the topology files, to the
// picosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "devices/cluster.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

constexpr fabric::Address kSource = 0;
constexpr fabric::Address kTarget = 1 << 20;
constexpr fabric::Address kFlag = 2 << 20;

// --- CloudMatrix384: the numbers of topologies/cm384.textproto ---
struct CloudMatrix {
  Machine file = machine("cm384");
  const fabric::Clos& clos = file.fabric().clos();
  double core_rate = file.device().core_store_gb_per_s();
  double link_rate = clos.device_link().gb_per_s();
  std::uint32_t packet_bytes = file.fabric().packet_bytes();
  std::size_t window = file.device().outstanding_stores();
  Time launch = ns(file.device().launch_ns());
  Time issue = ns(file.device().issue_ns());
  Time up = ns(clos.device_link().latency_ns());  // a die's link to or from its first-tier chip
  Time across =
      ns(clos.uplink().latency_ns());  // a first-tier chip's link to or from the second tier
  Time package = ns(clos.package_link().latency_ns());
};
const CloudMatrix& cm() {
  static const CloudMatrix numbers;
  return numbers;
}

struct Path {
  const char* what;
  const char* placement;  // of two ranks
  Time latency;           // one way
  double link_rate;
};
Path path(int which) {
  switch (which) {
    case 0:
      return {"other die of the package", "0,1", cm().package, cm().clos.package_link().gb_per_s()};
    case 1:
      return {"same node", "0,2", 2 * cm().up, cm().link_rate};
    default:
      return {"other node", "0,16", 2 * cm().up + 2 * cm().across, cm().link_rate};
  }
}

TEST(ClosedForm, WhatTheFormulasTakeForGranted) {
  EXPECT_EQ(cm().clos.uplink().gb_per_s(), cm().link_rate);
  EXPECT_LT(cm().core_rate, cm().link_rate);
  EXPECT_EQ(cm().file.fabric().header_bytes(), 0u);
  EXPECT_GT(cm().window, 0u);
}

struct Seen {
  Time visible = 0;
  Time acknowledged = 0;
  Time locally_complete = 0;
};

// One put of `bytes` from rank 0 to rank 1: when its last byte is visible there, and when the
// sender knows.
Seen single_put(const Path& way, std::uint32_t bytes) {
  Rig rig(machine("cm384", {kFinePolls}), 2, {}, way.placement);
  rig.memory(0).view(kSource, bytes)[bytes - 1] = std::byte{1};
  Seen seen;
  rig.run(0, [&](Core& core) -> Task {
    const PutHandle handle = co_await core.put(1, kTarget, kSource, bytes);
    seen.locally_complete = handle.locally_complete;
    co_await core.quiet();
    seen.acknowledged = core.now();
  });
  rig.run(1, [&](Core& core) -> Task {
    const Slots last_byte{kTarget + bytes - 1, 1, 1, 1, 0};
    const Predicate written{[](const std::byte* at, std::uint64_t) { return *at != std::byte{0}; },
                            0, "1"};
    co_await core.wait_until(last_byte, written, nobody);
    seen.visible = core.now() - 1;
  });
  EXPECT_EQ(rig.go(), "");
  return seen;
}

class SinglePut : public testing::TestWithParam<std::tuple<int, std::uint32_t>> {};

// When a put's last packet has left the core's pipe, which takes packets in turn from `start`, and
// when its tail has left the first link. Switches cut through and links are equally fast: that is
// all the serialisation there is. The pipe is slower than any link, so a packet waits at the link
// only if it is much shorter than the one before.
struct Left {
  Time pipe;
  Time link;
};
Left send(Time start, std::uint32_t bytes, double link_rate) {
  Left left{start, start};
  for (const std::uint32_t size : packets(bytes, cm().packet_bytes)) {
    left.pipe += ps(size, cm().core_rate);
    left.link = std::max(left.link, left.pipe) + ps(size, link_rate);
  }
  return left;
}

TEST_P(SinglePut, CloudMatrix) {
  const Path way = path(std::get<0>(GetParam()));
  const std::uint32_t bytes = std::get<1>(GetParam());
  const Left left = send(cm().launch + cm().issue, bytes, way.link_rate);
  const Time visible = left.link + way.latency;

  const Seen seen = single_put(way, bytes);
  EXPECT_EQ(seen.locally_complete, left.pipe);
  EXPECT_EQ(seen.visible, visible) << way.what;
  EXPECT_EQ(seen.acknowledged, visible + way.latency) << way.what;
}
INSTANTIATE_TEST_SUITE_P(Paths, SinglePut,
                         testing::Combine(testing::Range(0, 3),
                                          testing::Values(1u, 32u, 512u, 4095u, 4096u, 4097u, 7232u,
                                                          14336u, 65536u)));

TEST(ClosedForm, ToItself) {
  // tiny: a store to the own device takes self_latency and no link.
  Rig rig(machine("tiny", {kFinePolls}), 1);
  Time visible = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.store(0, kFlag, std::uint32_t{1});
    co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
    visible = core.now() - 1;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(visible, ns(1000) + ns(100) + ps(4, 10) + ns(100));  // launch, issue, pipe, self
}

// Puts from one core. Put k may be issued when an earlier one leaves the window of outstanding
// stores, the pipe takes them one after the other, each uses another plane. The sender's channel
// keeps order, which in-order arrivals satisfy anyway.
class Pipelined : public testing::TestWithParam<std::tuple<int, std::uint32_t>> {};

TEST_P(Pipelined, CloudMatrix) {
  const Path way = path(std::get<0>(GetParam()));
  const std::uint32_t bytes = std::get<1>(GetParam());
  constexpr std::size_t kPuts = 40;
  std::vector<Time> issued(kPuts), acknowledged(kPuts);
  Time core_free = cm().launch;
  Time pipe_free = 0;
  for (std::size_t k = 0; k < kPuts; ++k) {
    issued[k] = k < cm().window ? core_free : std::max(core_free, acknowledged[k - cm().window]);
    core_free = issued[k] + cm().issue;
    const Left left = send(std::max(pipe_free, core_free), bytes, way.link_rate);
    pipe_free = left.pipe;
    acknowledged[k] = left.link + 2 * way.latency;
  }

  Rig rig(machine("cm384", {kFinePolls}), 2, {}, way.placement);
  Time issue_ended = 0;
  Time drained = 0;
  rig.run(0, [&](Core& core) -> Task {
    for (std::size_t k = 0; k < kPuts; ++k) {
      co_await core.put(1, kTarget, kSource, bytes);
    }
    issue_ended = core.now();
    co_await core.quiet();
    drained = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(issue_ended, core_free);
  EXPECT_EQ(drained, acknowledged.back());
}
INSTANTIATE_TEST_SUITE_P(Paths, Pipelined,
                         testing::Combine(testing::Range(0, 3),
                                          testing::Values(32u, 512u, 4096u, 7232u)));

// n devices of a node put one packet each to the same die over the same plane at the same time.
// Their heads meet at the first-tier chip; the link down serves them one after the other in the
// order of senders.
TEST(ClosedForm, IncastOfDevicesOverOnePlane) {
  for (const std::uint32_t senders : {1u, 2u, 3u, 5u, 14u}) {
    for (const std::uint32_t bytes : {32u, 512u, 4096u}) {
      // Rank 0 is the target; its package's other die has a link of its own and stays out.
      std::string ports = "0";
      for (std::uint32_t i = 0; i < senders; ++i) ports += "," + std::to_string(2 + i);
      Rig rig(machine("cm384", {kFinePolls, {"fabric.plane_choice", "SINGLE"}}), senders + 1, {},
              ports);
      std::vector<Time> visible(senders);
      for (std::uint32_t i = 0; i < senders; ++i) {
        rig.memory(i + 1).store(kSource, std::uint32_t{1});
        rig.run(i + 1, [bytes, i](Core& core) -> Task {
          co_await core.put(0, kTarget + i * 4096, kSource, bytes);
        });
      }
      rig.run(
          0,
          [&](Core& core) -> Task {
            const std::uint32_t i = core.index();
            co_await core.wait_until(word_at(kTarget + i * 4096), word_equals(1), nobody);
            visible[i] = core.now() - 1;
          },
          senders);
      EXPECT_EQ(rig.go(), "");
      const Time heads_meet = cm().launch + cm().issue + ps(bytes, cm().core_rate) + cm().up;
      for (std::uint32_t i = 0; i < senders; ++i) {
        EXPECT_EQ(visible[i], heads_meet + (i + 1) * ps(bytes, cm().link_rate) + cm().up)
            << i << " of " << senders << ", " << bytes << " bytes";
      }
    }
  }
}

// n cores of one device put at once over one plane: now the device's own link up is the bottleneck,
// and the channel's order is that of issue.
TEST(ClosedForm, IncastOfCoresOverOnePlane) {
  for (const std::uint32_t cores : {1u, 2u, 7u, 48u}) {
    Rig rig(machine("cm384", {kFinePolls, {"fabric.plane_choice", "SINGLE"}}), 2, {}, "0,16");
    constexpr std::uint32_t kBytes = 2048;
    rig.memory(0).store(kSource, std::uint32_t{1});
    std::vector<Time> visible(cores);
    rig.run(
        0,
        [&](Core& core) -> Task {
          co_await core.put(1, kTarget + core.index() * 4096, kSource, kBytes);
        },
        cores);
    rig.run(
        1,
        [&](Core& core) -> Task {
          co_await core.wait_until(word_at(kTarget + core.index() * 4096), word_equals(1), nobody);
          visible[core.index()] = core.now() - 1;
        },
        cores);
    EXPECT_EQ(rig.go(), "");
    const Time at_the_link = cm().launch + cm().issue + ps(kBytes, cm().core_rate);
    for (std::uint32_t i = 0; i < cores; ++i) {
      EXPECT_EQ(visible[i],
                at_the_link + (i + 1) * ps(kBytes, cm().link_rate) + 2 * (cm().up + cm().across))
          << i;
    }
  }
}

// Two nodes' worth of senders, from near and from far: those of the target's own node are served
// before the far ones' heads arrive; the far ones find the link down free again or wait for the
// rest.
TEST(ClosedForm, IncastFromNearAndFar) {
  constexpr std::uint32_t kBytes = 4096;
  constexpr std::uint32_t kNear = 8;
  constexpr std::uint32_t kFar = 8;
  std::string ports = "0";
  for (std::uint32_t i = 0; i < kNear; ++i) ports += "," + std::to_string(2 + i);
  for (std::uint32_t i = 0; i < kFar; ++i)
    ports += "," + std::to_string(16 + 16 * i);  // one node each
  Rig rig(machine("cm384", {kFinePolls, {"fabric.plane_choice", "SINGLE"}}), 1 + kNear + kFar, {},
          ports);
  std::vector<Time> visible(kNear + kFar);
  for (std::uint32_t i = 0; i < kNear + kFar; ++i) {
    rig.memory(i + 1).store(kSource, std::uint32_t{1});
    rig.run(i + 1,
            [i](Core& core) -> Task { co_await core.put(0, kTarget + i * 4096, kSource, kBytes); });
  }
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.wait_until(word_at(kTarget + core.index() * 4096), word_equals(1), nobody);
        visible[core.index()] = core.now() - 1;
      },
      kNear + kFar);
  EXPECT_EQ(rig.go(), "");
  const Time left_the_core = cm().launch + cm().issue + ps(kBytes, cm().core_rate);
  const Time on_the_wire = ps(kBytes, cm().link_rate);
  Time free = 0;
  for (std::uint32_t i = 0; i < kNear; ++i) {
    free = std::max(free, left_the_core + cm().up) + on_the_wire;
    EXPECT_EQ(visible[i], free + cm().up);
  }
  for (std::uint32_t i = kNear; i < kNear + kFar; ++i) {
    // The far ones share the one spine that SINGLE picks, then its link to the target's chip: they
    // queue there, and reach the link down one behind the other.
    const Time head = left_the_core + cm().up + 2 * cm().across + (i - kNear) * on_the_wire;
    free = std::max(free, head) + on_the_wire;
    EXPECT_EQ(visible[i], free + cm().up) << i;
  }
}

// A large put is overtaken on another plane by the small one after it; the channel's order holds
// that back until the large one is wholly visible.
TEST(ClosedForm, OrderedChannelHoldsTheLaterPut) {
  Rig rig(machine("cm384", {kFinePolls, {"device.core_store_gb_per_s", "0"}}), 2, {}, "0,2");
  constexpr std::uint32_t kBytes = 65536;
  Time flag_seen = 0;
  Time acknowledged = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, kBytes);
    co_await core.store(1, kFlag, std::uint32_t{7});
    co_await core.quiet();
    acknowledged = core.now();
  });
  rig.run(1, [&](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_equals(7), nobody);
    flag_seen = core.now() - 1;
  });
  EXPECT_EQ(rig.go(), "");
  // With an unlimited pipe all packets are at the link at once, one behind the other.
  Time put_visible = cm().launch + cm().issue + 2 * cm().up;
  for (const std::uint32_t size : packets(kBytes, cm().packet_bytes))
    put_visible += ps(size, cm().link_rate);
  const Time flag_arrives = cm().launch + 2 * cm().issue + ps(4, cm().link_rate) + 2 * cm().up;
  ASSERT_LT(flag_arrives, put_visible);
  EXPECT_EQ(flag_seen, put_visible);
  EXPECT_EQ(acknowledged, put_visible + 2 * cm().up);

  // Without order the flag is there as soon as it arrives.
  Rig loose(
      machine("cm384",
              {kFinePolls, {"device.core_store_gb_per_s", "0"}, {"fabric.order_scope", "NONE"}}),
      2, {}, "0,2");
  loose.run(0, [&](Core& core) -> Task {
    co_await core.put(1, kTarget, kSource, kBytes);
    co_await core.store(1, kFlag, std::uint32_t{7});
  });
  loose.run(1, [&](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_equals(7), nobody);
    flag_seen = core.now() - 1;
  });
  EXPECT_EQ(loose.go(), "");
  EXPECT_EQ(flag_seen, flag_arrives);
}

// Cut-through from a fast link into a slow one and back: the packet's tail is paced by the slowest
// link once.
TEST(ClosedForm, CutThroughBetweenLinksOfDifferentRates) {
  const auto two = [](double first, double second) {
    return machine_of(
        "fabric { explicit_graph { devices: ['a', 'b'] switches: ['s'] cables: ["
        "{a: 'a' b: 's' link { latency_ns: 10 gb_per_s: " +
        std::to_string(first) +
        " }},"
        "{a: 's' b: 'b' link { latency_ns: 20 gb_per_s: " +
        std::to_string(second) +
        " }} ] } }"
        "device { poll_ns: 0.001 }");
  };
  for (const auto& [first, second] :
       {std::pair{10.0, 1.0}, std::pair{1.0, 10.0}, std::pair{5.0, 5.0}}) {
    Rig rig(two(first, second), 2);
    Time visible = 0;
    rig.memory(0).store(kSource, std::uint32_t{1});
    rig.run(0, [](Core& core) -> Task { co_await core.put(1, kTarget, kSource, 1000); });
    rig.run(1, [&](Core& core) -> Task {
      co_await core.wait_until(word_at(kTarget), word_equals(1), nobody);
      visible = core.now() - 1;
    });
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(visible, ns(30) + ps(1000, std::min(first, second))) << first << " into " << second;
  }
}

// A get: issue, the request's way, then the reply's packets back to back.
TEST(ClosedForm, Get) {
  for (const int which : {0, 1, 2}) {
    const Path way = path(which);
    for (const std::uint32_t bytes : {32u, 4096u, 14336u}) {
      Rig rig(machine("cm384"), 2, {}, way.placement);
      Time done = 0;
      rig.run(0, [&](Core& core) -> Task {
        co_await core.get(1, kSource, kTarget, bytes);
        done = core.now();
      });
      EXPECT_EQ(rig.go(), "");
      Time expected = cm().launch + cm().issue + 2 * way.latency;
      for (const std::uint32_t size : packets(bytes, cm().packet_bytes))
        expected += ps(size, way.link_rate);
      EXPECT_EQ(done, expected) << way.what << ", " << bytes;
    }
  }
}

// The service core of ascend950-mesh8 serves puts of all cores one by one.
TEST(ClosedForm, ServiceCore) {
  constexpr std::uint32_t kCores = 5;
  constexpr std::uint32_t kBytes = 2048;
  const Machine mesh = machine("ascend950-mesh8", {kFinePolls});
  const Device& device = mesh.device();
  const fabric::LinkSpec& link = mesh.fabric().full_mesh().links(0);
  Rig rig(mesh, 2);
  std::vector<Time> visible(kCores);
  rig.memory(0).store(kSource, std::uint32_t{1});
  rig.run(
      0,
      [&](Core& core) -> Task {
        co_await core.put(1, kTarget + core.index() * 4096, kSource, kBytes);
      },
      kCores);
  rig.run(
      1,
      [&](Core& core) -> Task {
        co_await core.wait_until(word_at(kTarget + core.index() * 4096), word_equals(1), nobody);
        visible[core.index()] = core.now() - 1;
      },
      kCores);
  EXPECT_EQ(rig.go(), "");
  for (std::uint32_t i = 0; i < kCores; ++i) {
    EXPECT_EQ(visible[i], ns(device.launch_ns()) + ns(device.issue_ns()) +
                              (i + 1) * ns(device.service_core_put_ns()) +
                              ps(kBytes, link.gb_per_s()) + ns(link.latency_ns()));
  }
}

// Headers take time on links, none in the core's pipe.
TEST(ClosedForm, Headers) {
  Rig rig(machine("tiny", {kFinePolls, {"fabric.header_bytes", "40"}}), 2);
  Time visible = 0;
  rig.memory(0).store(kSource + 9996, std::uint32_t{1});
  rig.run(0, [](Core& core) -> Task { co_await core.put(1, kTarget, kSource, 10000); });
  rig.run(1, [&](Core& core) -> Task {
    co_await core.wait_until(word_at(kTarget + 9996), word_equals(1), nobody);
    visible = core.now() - 1;
  });
  EXPECT_EQ(rig.go(), "");
  // Pipe and link have one rate here, so the header makes the link the slower: packets queue at it.
  const Time first = ns(1000) + ns(100) + ps(4096, 10);
  Time link = first;
  Time pipe = first;
  for (const std::uint32_t size : {4096u, 4096u, 1808u}) {
    if (link != first) pipe += ps(size, 10);
    link = std::max(link, pipe) + ps(size + 40, 10);
  }
  EXPECT_EQ(visible, link + ns(1000));
}

}  // namespace
}  // namespace orrery::devices
