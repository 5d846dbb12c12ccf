#include "devices/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/placement.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;

fabric::Topology topology_of(const Machine& machine) {
  return fabric::build_topology(machine.fabric(), "test");
}

TEST(AssignProcesses, EqualBlocksOfRanks) {
  const fabric::Topology topology = topology_of(machine("cm384"));
  for (const std::uint32_t ranks : {1u, 5u, 32u, 768u}) {
    const auto ports = fabric::place(topology, ranks, "packed");
    for (const int processes : {1, 2, 3, 4, 8, 61}) {
      const auto process_of = assign_processes(topology, ports, processes);
      ASSERT_EQ(process_of.size(), topology.nodes());
      std::vector<std::uint32_t> counts(static_cast<std::size_t>(processes), 0);
      int before = 0;
      for (const fabric::NodeId port : ports) {
        ASSERT_GE(process_of[port], before);
        before = process_of[port];
        ++counts[static_cast<std::size_t>(before)];
      }
      const auto [least, most] = std::ranges::minmax(counts);
      EXPECT_LE(most - least, 1u) << ranks << " ranks on " << processes;
      for (const int process : process_of) {
        ASSERT_GE(process, 0);
        ASSERT_LT(process, processes);
      }
    }
  }
}

TEST(AssignProcesses, SwitchesGoWithTheirFirstRankOrRoundRobin) {
  // tiny: devices 0..3, first-tier chips 4..7 (two nodes of two planes), second tier 8 and 9.
  const fabric::Topology topology = topology_of(machine("tiny"));
  EXPECT_EQ(assign_processes(topology, {0, 1, 2, 3}, 4),
            (std::vector<int>{0, 1, 2, 3, 0, 0, 2, 2, 0, 1}));
  EXPECT_EQ(assign_processes(topology, {0, 1, 2, 3}, 2),
            (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1, 0, 1}));
  // The first rank of node 0 is rank 2 here; device 1 takes no part.
  EXPECT_EQ(assign_processes(topology, {2, 3, 0}, 3),
            (std::vector<int>{2, 0, 0, 1, 2, 2, 0, 0, 0, 1}));
  // More processes than ranks.
  EXPECT_EQ(assign_processes(topology, {0, 2}, 4)[2], 2);
}

TEST(Cluster, RanksSitOnTheirPorts) {
  Rig rig(machine("tiny"), 3, {}, "3,0,2");
  EXPECT_EQ(rig.cluster().ranks(), 3u);
  EXPECT_EQ(rig.device(0).node(), 3u);
  EXPECT_EQ(rig.cluster().rank_at(2), 2u);
  rig.memory(0).store(0, std::uint32_t{5});
  rig.run(0, [](Core& core) -> Task { co_await core.put(2, 64, 0, 4); });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.memory(2).load<std::uint32_t>(64), 5u);
}

// In a mesh of two dimensions packets travel through devices, also through those that run nothing.
TEST(Cluster, DevicesWithoutARankPassPacketsOn) {
  const Machine mesh = machine_of(
      "fabric { full_mesh { dimensions: [3, 3] links { latency_ns: 10 gb_per_s: 1 } links { "
      "latency_ns: 10 gb_per_s: 1 } } }"
      "device { poll_ns: 0.001 }");
  Rig rig(mesh, 2, {}, "0,8");
  rig.memory(0).store(0, std::uint32_t{5});
  rig.run(0, [](Core& core) -> Task { co_await core.put(1, 64, 0, 4); });
  emu::Time seen = 0;
  rig.run(1, [&](Core& core) -> Task {
    co_await core.wait_until(word_at(64), word_equals(5), nobody);
    seen = core.now() - 1;
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(seen, 2 * ns(10) + ps(4, 1));
}

TEST(Cluster, DigestIsThatOfTheEvents) {
  const auto digest = [](std::uint32_t bytes, bool backwards) {
    Rig rig(machine("tiny"), 4);
    const Program program = [bytes](Core& core) -> Task {
      co_await core.put((core.rank() + 1) % 4, 4096, 0, bytes);
      co_await core.quiet();
    };
    for (std::uint32_t i = 0; i < 4; ++i) rig.run(backwards ? 3 - i : i, program);
    EXPECT_EQ(rig.go(), "");
    return rig.cluster().digest();
  };
  EXPECT_EQ(digest(1000, false), digest(1000, false));
  EXPECT_EQ(digest(1000, false), digest(1000, true));
  EXPECT_NE(digest(1000, false), digest(1010, false));
}

}  // namespace
}  // namespace orrery::devices
