#include "fabric/routing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

constexpr int kFar = -1;

// Links from every node to `destination`, by relaxation until nothing changes: no queue, no groups.
std::vector<int> distances_to(const Topology& topology, NodeId destination) {
  std::vector<int> distance(topology.nodes(), kFar);
  distance[destination] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Link& link : topology.links) {
      const int through = distance[link.to] == kFar ? kFar : distance[link.to] + 1;
      if (through != kFar && (distance[link.from] == kFar || through < distance[link.from])) {
        distance[link.from] = through;
        changed = true;
      }
    }
  }
  return distance;
}

// At every node, choices 0 … n-1 are exactly the links that come one closer, in their order.
void expect_minimal(const Topology& topology) {
  const Routing routing(topology);
  for (NodeId destination = 0; destination < topology.devices; ++destination) {
    const std::vector<int> distance = distances_to(topology, destination);
    for (NodeId node = 0; node < topology.nodes(); ++node) {
      if (node == destination) continue;
      std::vector<LinkId> closer;
      for (LinkId link = topology.first_link[node]; link < topology.first_link[node + 1]; ++link) {
        if (distance[node] != kFar && distance[topology.links[link].to] == distance[node] - 1)
          closer.push_back(link);
      }
      const auto count = static_cast<std::uint32_t>(closer.size());
      ASSERT_EQ(routing.choices(node, destination), count)
          << topology.names[node] << " to " << destination;
      for (std::uint32_t choice = 0; choice < 2 * count; ++choice) {
        ASSERT_EQ(routing.next_link(node, destination, choice), closer[choice % count]);
        ASSERT_EQ(routing.pass_on(node, destination, choice), choice / count);
      }
      if (topology.is_device(node)) {
        ASSERT_EQ(routing.hops(node, destination), distance[node]);
      }
    }
    EXPECT_EQ(routing.hops(destination, destination), 0);
    EXPECT_EQ(routing.switches(destination, destination), 0);
    EXPECT_EQ(routing.latency(destination, destination, 5), 0);
  }
}

TEST(Routing, EqualsABruteForceSearchOnEveryGenerator) {
  for (const char* text : kSmallFabrics) {
    SCOPED_TRACE(text);
    expect_minimal(topology_of(text));
  }
}

TEST(Routing, EqualsABruteForceSearchOnCloudMatrix384) {
  expect_minimal(build_topology(shipped_fabric("cm384"), "cm384"));
}

TEST(Routing, EqualsABruteForceSearchOnRandomGraphs) {
  std::uint64_t state = 42;
  const auto below = [&state](std::uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state >> 33) % bound);
  };
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t devices = 1 + below(12);
    const std::uint32_t nodes = devices + below(8);
    Fabric fabric;
    Explicit& graph = *fabric.mutable_explicit_graph();
    const auto name = [&](std::uint32_t node) { return fmt::format("n{}", node); };
    for (std::uint32_t node = 0; node < nodes; ++node) {
      (node < devices ? graph.add_devices() : graph.add_switches())->assign(name(node));
    }
    const auto add_cable = [&](std::uint32_t a, std::uint32_t b) {
      Explicit::Cable& cable = *graph.add_cables();
      cable.set_a(name(a));
      cable.set_b(name(b));
      cable.mutable_link()->set_latency_ns(1 + below(9));
      cable.mutable_link()->set_gb_per_s(1);
    };
    for (std::uint32_t node = 1; node < nodes; ++node) add_cable(node, below(node));
    for (std::uint32_t extra = below(2 * nodes); nodes > 1 && extra > 0; --extra) {
      const std::uint32_t a = below(nodes);
      add_cable(a, (a + 1 + below(nodes - 1)) % nodes);
    }
    SCOPED_TRACE(fabric.ShortDebugString());
    expect_minimal(build_topology(fabric, "random"));
  }
}

TEST(Routing, SparseDirectLinksAreFound) {
  // A hypercube: 8 neighbours within a span of up to 193 devices, too sparse for one entry per
  // device.
  expect_minimal(
      topology_of("full_mesh { dimensions: [2, 2, 2, 2, 2, 2, 2, 2]"
                  " links { latency_ns: 1 gb_per_s: 1 } }"));
}

TEST(Routing, CloudMatrix384TakesItsPublishedTimes) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  const Routing routing(topology);
  const struct {
    NodeId destination;
    int hops, switches;
    emu::Time latency;
  } cases[] = {{1, 1, 0, 218'000},
               {2, 2, 1, 929'000},
               {15, 2, 1, 929'000},
               {16, 4, 3, 2'500'000},
               {767, 4, 3, 2'500'000}};
  for (const auto& test : cases) {
    EXPECT_EQ(routing.hops(0, test.destination), test.hops);
    EXPECT_EQ(routing.switches(0, test.destination), test.switches);
    for (std::uint32_t choice = 0; choice < 200; ++choice) {
      EXPECT_EQ(routing.latency(0, test.destination, choice), test.latency);
    }
  }
  const Topology shorter = build_topology(shipped_fabric("cm384-short-hop2"), "cm384-short-hop2");
  EXPECT_EQ(Routing(shorter).latency(0, 767, 3), 1'879'000);
  EXPECT_EQ(Routing(shorter).latency(0, 15, 3), 929'000);
}

TEST(Routing, OtherShippedTimes) {
  const auto latency = [](const char* name, NodeId from, NodeId to) {
    const Topology topology = build_topology(shipped_fabric(name), name);
    return Routing(topology).latency(from, to, 0);
  };
  EXPECT_EQ(latency("star", 3, 255), 700'000);
  EXPECT_EQ(latency("ascend950-mesh8", 0, 7), 1'000'000);
  EXPECT_EQ(latency("tiny", 0, 1), 1'000'000);
  EXPECT_EQ(latency("tiny", 0, 3), 2'000'000);
}

TEST(Routing, CandidatesOfCloudMatrix384Are7Then16Then1Then1) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  const Routing routing(topology);
  const NodeId destination = 500;
  std::uint32_t choice = 3 + 7 * 11;  // plane 3, spine 11
  NodeId node = 0;
  std::vector<std::uint32_t> counts;
  std::vector<std::string> path;
  while (node != destination) {
    counts.push_back(routing.choices(node, destination));
    const Routing::Step step = routing.next_step(node, destination, choice);
    node = topology.links[step.link].to;
    choice = step.choice;
    path.push_back(topology.names[node]);
  }
  EXPECT_THAT(counts, ::testing::ElementsAre(7, 16, 1, 1));
  EXPECT_THAT(path, ::testing::ElementsAre("L1 node0 plane3", "L2 plane3 spine11",
                                           "L1 node31 plane3", "die500"));
}

TEST(Routing, ConsecutiveChoicesSpreadEvenlyOverPlanesAndSpines) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  const Routing routing(topology);
  std::map<NodeId, int> per_spine;
  std::map<int, int> per_plane;
  for (std::uint32_t choice = 0; choice < 7 * 16 * 5; ++choice) {
    const Routing::Step up = routing.next_step(5, 700, choice);
    const Link& first = topology.links[up.link];
    ++per_plane[first.plane];
    ++per_spine[topology.links[routing.next_link(first.to, 700, up.choice)].to];
  }
  EXPECT_EQ(per_plane.size(), 7u);
  for (const auto& [plane, count] : per_plane) EXPECT_EQ(count, 16 * 5) << plane;
  EXPECT_EQ(per_spine.size(), 112u);
  for (const auto& [spine, count] : per_spine) EXPECT_EQ(count, 5) << spine;
}

TEST(Routing, NoPathIsSaidSo) {
  Topology topology =
      topology_of("full_mesh { dimensions: 2 links { latency_ns: 1 gb_per_s: 1 } }");
  topology.links.clear();
  topology.first_link.assign(3, 0);
  const Routing routing(topology);
  EXPECT_EQ(routing.next_link(0, 1, 0), kNoLink);
  EXPECT_EQ(routing.hops(0, 1), -1);
  EXPECT_EQ(routing.switches(0, 1), -1);
  EXPECT_EQ(routing.latency(0, 1, 0), emu::kNever);
}

TEST(Routing, TablesOfLargeClosNetworksStaySmall) {
  const Topology topology = topology_of(
      "clos { nodes: 256 devices_per_node: 16 planes: 7 spines_per_plane: 16 devices_per_package: 2"
      " device_link { latency_ns: 5 gb_per_s: 2 } uplink { latency_ns: 7 gb_per_s: 2 }"
      " package_link { latency_ns: 1 gb_per_s: 2 } }");
  const Routing routing(topology);
  EXPECT_EQ(routing.hops(0, 4095), 4);
  EXPECT_LT(routing.table_bytes(), 2u << 20);
}

}  // namespace
}  // namespace orrery::fabric
