#include "fabric/routing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fabric/failures.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

constexpr int kFar = -1;

// How many links this one counts for on the way to `destination`; 0 if it leads elsewhere. Devices
// of one domain use their scale-up links alone.
int length(const Topology& topology, const Link& link, NodeId destination) {
  const bool ends = link.to == destination;
  if (!ends && topology.is_device(link.to) && !topology.devices_forward) return 0;
  const bool has_domains =
      !topology.scale_up_domain.empty() && topology.scale_up_class < Topology::kMaxLinkClasses;
  if (has_domains && topology.is_device(link.from) && link.from != destination &&
      !topology.is_scale_out(link.from, destination) && link.link_class != topology.scale_up_class)
    return 0;
  return ends ? 1 : topology.class_length[link.link_class];
}

// From every node to `destination`, by relaxation until nothing changes: no queue, no groups.
std::vector<int> distances_to(const Topology& topology, NodeId destination) {
  std::vector<int> distance(topology.nodes(), kFar);
  distance[destination] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Link& link : topology.links) {
      const int step = length(topology, link, destination);
      if (step == 0) continue;
      const int through = distance[link.to] == kFar ? kFar : distance[link.to] + step;
      if (through != kFar && (distance[link.from] == kFar || through < distance[link.from])) {
        distance[link.from] = through;
        changed = true;
      }
    }
  }
  return distance;
}

// Of the links that choice 0 takes; kFar if there is no path.
int path_length(const Topology& topology, const Routing& routing, NodeId node, NodeId destination) {
  int sum = 0;
  int links = 0;
  for (const NodeId source = node; node != destination; ++links) {
    const LinkId link = routing.next_link(node, destination, 0);
    if (link == kNoLink) {
      EXPECT_EQ(routing.hops(source, destination), -1);
      return kFar;
    }
    sum += length(topology, topology.links[link], destination);
    node = topology.links[link].to;
    if (node == destination) {
      EXPECT_EQ(routing.hops(source, destination), links + 1);
    }
  }
  return sum;
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
        const NodeId next = topology.links[link].to;
        const int step = length(topology, topology.links[link], destination);
        if (step > 0 && distance[next] != kFar && distance[next] + step == distance[node])
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
        ASSERT_EQ(path_length(topology, routing, node, destination), distance[node]);
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

TEST(Routing, EqualsABruteForceSearchWhereCablesFailed) {
  for (const char* text : kSmallFabrics) {
    SCOPED_TRACE(text);
    const Topology whole = topology_of(text);
    for (const Link& link : whole.links) {
      if (link.from > link.to) continue;
      Fabric fabric = fabric_of(text);
      fabric.add_failed_links(cable_name(whole, link));
      expect_minimal(build_topology(fabric, "failed"));
    }
    for (std::uint32_t plane = 0; plane < whole.planes; ++plane) {
      Fabric fabric = fabric_of(text);
      fabric.add_failed_planes(plane);
      expect_minimal(build_topology(fabric, "failed"));
    }
  }
  // A device that hangs on its package alone, a node with one plane of its own, a plane gone.
  Fabric fabric = fabric_of(kSmallFabrics[4]);
  for (const char* link : {"die0-L1.node0.plane0", "die0-L1.node0.plane1", "die0-L1.node0.plane2",
                           "L1.node1.plane0-L2.plane0.spine0", "L1.node1.plane0-L2.plane0.spine1"})
    fabric.add_failed_links(link);
  fabric.add_failed_planes(2);
  expect_minimal(build_topology(fabric, "failed"));
}

TEST(Routing, RemainingPlanesAreChosenByTheSameRule) {
  Fabric fabric = shipped_fabric("cm384");
  fabric.add_failed_planes(2);
  const Topology topology = build_topology(fabric, "cm384");
  const Routing routing(topology);
  const std::uint16_t left[] = {0, 1, 3, 4, 5, 6};
  for (std::uint32_t choice = 0; choice < 12; ++choice) {
    EXPECT_EQ(topology.links[routing.next_link(0, 700, choice)].plane, left[choice % 6]);
  }
  EXPECT_EQ(routing.latency(0, 700, 2), 2'500'000);
  EXPECT_EQ(routing.hops(0, 1), 1);  // the package's own cable is of no plane
}

TEST(Routing, GoesAroundAFailedUplink) {
  Fabric fabric = shipped_fabric("cm384");
  fabric.add_failed_links("L1.node31.plane3-L2.plane3.spine11");
  const Topology topology = build_topology(fabric, "cm384");
  const Routing routing(topology);
  const NodeId chip = 768 + 3;  // L1 node0 plane3
  EXPECT_EQ(topology.names[chip], "L1 node0 plane3");
  EXPECT_EQ(routing.choices(chip, 500), 15u);  // to node 31: without spine 11
  EXPECT_EQ(routing.choices(chip, 480), 16u);  // to node 30: as ever
  EXPECT_EQ(routing.choices(0, 500), 7u);      // still seven planes
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
