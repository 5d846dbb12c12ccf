#include "fabric/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/fabric/counts.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What holds for every topology, checked link by link.
void expect_sound(const Topology& topology) {
  ASSERT_EQ(topology.first_link.size(), topology.nodes() + 1u);
  ASSERT_EQ(topology.names.size(), topology.nodes());
  EXPECT_EQ(topology.first_link.back(), topology.links.size());
  EXPECT_LE(topology.link_classes.size(), Topology::kMaxLinkClasses);
  std::map<std::pair<NodeId, NodeId>, int> balance;
  for (NodeId node = 0; node < topology.nodes(); ++node) {
    EXPECT_EQ(topology.tier[node] == 0, topology.is_device(node));
    if (node > topology.devices) {
      EXPECT_LE(topology.tier[node - 1], topology.tier[node]) << "tier by tier";
    }
    for (const Link& link : topology.links_from(node)) {
      EXPECT_EQ(link.from, node);
      EXPECT_LT(link.to, topology.nodes());
      EXPECT_GT(link.latency, 0);
      EXPECT_FALSE(link.rate.unlimited());
      EXPECT_LT(link.link_class, topology.link_classes.size());
      ++balance[{link.from, link.to}];
      --balance[{link.to, link.from}];
    }
  }
  for (const auto& [ends, difference] : balance)
    EXPECT_EQ(difference, 0) << "a cable of one direction";
}

TEST(Topology, EveryGeneratorMakesASoundGraph) {
  for (const char* text : kSmallFabrics) {
    SCOPED_TRACE(text);
    expect_sound(topology_of(text));
  }
  for (const std::string& name : shipped_topologies()) {
    SCOPED_TRACE(name);
    expect_sound(build_topology(shipped_fabric(name), name));
  }
}

TEST(Topology, CloudMatrix384HasItsPublishedCounts) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  EXPECT_EQ(topology.devices, 768u);
  EXPECT_EQ(topology.devices_per_node, 16u);
  EXPECT_EQ(topology.devices_per_package, 2u);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 768}, {1, 336}, {2, 112}}));
  EXPECT_THAT(topology.link_classes, ElementsAre("package", "device-L1", "L1-L2"));
  EXPECT_EQ(links_per_class(topology),
            (std::map<std::string, int>{
                {"package", 768}, {"device-L1", 2 * 768 * 7}, {"L1-L2", 2 * 336 * 16}}));
  for (NodeId spine = 768 + 336; spine < topology.nodes(); ++spine) {
    EXPECT_EQ(topology.links_from(spine).size(), 48u);  // ports of a second-tier switch
  }
}

TEST(Topology, ClosNumbersNodesAsDocumented) {
  const Topology topology = build_topology(shipped_fabric("tiny"), "tiny");
  EXPECT_THAT(
      topology.names,
      ElementsAre("device0", "device1", "device2", "device3", "L1 node0 plane0", "L1 node0 plane1",
                  "L1 node1 plane0", "L1 node1 plane1", "L2 plane0 spine0", "L2 plane1 spine0"));
  const std::span<const Link> links = topology.links_from(3);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].to, 6u);
  EXPECT_EQ(links[1].to, 7u);
  EXPECT_EQ(links[1].plane, 1);
  EXPECT_EQ(links[1].latency, 500'000);
  EXPECT_EQ(links[1].rate.gb_per_s(), 10);
}

TEST(Topology, ScaleOutIsBetweenDomains) {
  Topology topology = topology_of(kSmallFabrics[1]);
  EXPECT_TRUE(topology.scale_up_domain.empty());
  EXPECT_FALSE(topology.is_scale_out(0, 8));  // all in one domain
  topology.scale_up_domain = {0, 0, 0, 1, 1, 1, 2, 3, 4};
  EXPECT_FALSE(topology.is_scale_out(0, 2));
  EXPECT_TRUE(topology.is_scale_out(2, 3));
  EXPECT_TRUE(topology.is_scale_out(7, 8));  // no scale-up network: a domain each
  EXPECT_FALSE(topology.is_scale_out(8, 8));
}

TEST(Topology, OneNodeHasNoSecondTier) {
  const Topology topology = topology_of(kSmallFabrics[2]);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 4}, {1, 3}}));
}

TEST(Topology, FullMeshConnectsEveryPairOnce) {
  const Topology topology = build_topology(shipped_fabric("ascend950-mesh8"), "mesh");
  EXPECT_EQ(topology.devices, 8u);
  EXPECT_EQ(topology.links.size(), 2u * 28u);
  EXPECT_THAT(topology.link_classes, ElementsAre("mesh"));
}

TEST(Topology, MeshDimensionsHaveClassesOfTheirOwn) {
  const Topology grid = topology_of(kSmallFabrics[7]);
  EXPECT_EQ(links_per_class(grid),
            (std::map<std::string, int>{{"mesh0", 12 * 3}, {"mesh1", 12 * 2}}));
  for (const Link& link : grid.links) {
    const bool same_row = link.from / 4 == link.to / 4;
    const bool same_column = link.from % 4 == link.to % 4;
    EXPECT_NE(same_row, same_column);
    EXPECT_EQ(link.latency, same_row ? 3000 : 4000);
  }
  EXPECT_THAT(topology_of(kSmallFabrics[8]).link_classes,
              ElementsAre("mesh0", "mesh1", "mesh2", "mesh3"));
  EXPECT_THAT(topology_of(kSmallFabrics[9]).link_classes,
              ElementsAre("mesh0", "mesh1", "mesh2", "mesh3+"));
}

TEST(Topology, ExplicitSwitchesAreSortedByTier) {
  const Topology topology = topology_of(kSmallFabrics[11]);
  EXPECT_THAT(topology.names, ElementsAre("a", "b", "c", "d", "left", "right", "far"));
  EXPECT_THAT(topology.tier, ElementsAre(0, 0, 0, 0, 1, 1, 2));
}

TEST(Topology, BadFabricsAreRefused) {
  const std::string cables = " link { latency_ns: 1 gb_per_s: 1 } }";
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"", "fabric: got 'no generator', expected one of clos"},
      {"packet_bytes: 8 star {}", "packet_bytes: got '8', expected an integer from 16 to 65536"},
      {"star {}", "fabric.star.devices: got 'nothing'"},
      {"star { devices: 4 }", "fabric.star.link.latency_ns: got 'nothing'"},
      {"star { devices: 4 link { latency_ns: 5 } }", "fabric.star.link.gb_per_s: got 'nothing'"},
      {"star { devices: 4 link { latency_ns: 0 gb_per_s: 1 } }", "star.link.latency_ns: got '0'"},
      {"star { devices: 4 link { latency_ns: nan gb_per_s: 1 } }",
       "star.link.latency_ns: got 'nan'"},
      {"clos { devices_per_node: 4 }", "fabric.clos.nodes: got 'nothing'"},
      {"clos { nodes: 4 }", "fabric.clos.devices_per_node: got 'nothing'"},
      {"clos { nodes: 1 devices_per_node: 4 }",
       "fabric.clos.device_link.latency_ns: got 'nothing'"},
      {"clos { nodes: 2 devices_per_node: 4 device_link { latency_ns: 1 gb_per_s: 1 } }",
       "fabric.clos.uplink.latency_ns: got 'nothing'"},
      {"clos { nodes: 1 devices_per_node: 4 devices_per_package: 2 device_link { latency_ns: 1 "
       "gb_per_s: 1 } }",
       "fabric.clos.package_link.latency_ns: got 'nothing'"},
      {"clos { nodes: 2 devices_per_node: 4 devices_per_package: 3 }",
       "fabric.clos.devices_per_package: got '3', expected a divisor of devices_per_node, which is "
       "4"},
      {"clos { nodes: 65536 devices_per_node: 65536 }",
       "fabric.clos: got '4295032833 devices and switches'"},
      {"clos { nodes: 1024 devices_per_node: 64 planes: 16 spines_per_plane: 4096 }",
       "expected at most 33554432"},
      {"full_mesh { }", "fabric.full_mesh.dimensions: got 'nothing'"},
      {"full_mesh { dimensions: 4 }", "fabric.full_mesh.links: got '0 links', expected 1"},
      {"full_mesh { dimensions: [4, 4, 4] links {} links {} }",
       "fabric.full_mesh.links: got '2 links', expected 1 for all dimensions or 3, one per "
       "dimension"},
      {"full_mesh { dimensions: 4 links {} }",
       "fabric.full_mesh.links.0.latency_ns: got 'nothing'"},
      {"full_mesh { dimensions: 65536 links {} }", "expected at most 33554432"},
      {"full_mesh { dimensions: [65536, 65536, 65536, 65536, 65536] links {} }",
       "expected at most 1048576"},
      {"torus { }", "fabric.torus.dimensions: got 'nothing'"},
      {"torus { dimensions: 0 links { latency_ns: 1 gb_per_s: 1 } }",
       "torus.dimensions.0: got '0', expected an integer from 1 to 65536"},
      {"torus { dimensions: [4, 4, 4] links {} links {} }",
       "fabric.torus.links: got '2 links', expected 1 for all dimensions or 3, one per dimension"},
      {"torus { dimensions: 4 links { latency_ns: 1 } }",
       "fabric.torus.links.0.gb_per_s: got 'nothing'"},
      {"torus { dimensions: [65536, 65536, 65536, 65536, 65536] links {} }",
       "expected at most 1048576"},
      {"explicit_graph { switches: 's' }", "fabric.explicit_graph.devices: got 'nothing'"},
      {"explicit_graph { devices: ['a', 'a'] }",
       "fabric.explicit_graph.devices.1: got 'a', expected a name that no"},
      {"explicit_graph { devices: 'a' switches: 'a' }",
       "fabric.explicit_graph.switches.0: got 'a'"},
      {"explicit_graph { devices: '' }",
       "fabric.explicit_graph.devices.0: got '', expected a name"},
      {"explicit_graph { devices: 'a' cables { a: 'a' b: 'x'" + cables + "}",
       "fabric.explicit_graph.cables.0.b: got 'x', expected the name of a device or switch"},
      {"explicit_graph { devices: 'a' cables { a: 'a' b: 'a'" + cables + "}",
       "cables.0.b: got 'a', expected another"},
      {"explicit_graph { devices: ['a', 'b'] }",
       "got 'none that leads to b', expected a path from a to every"},
      {"explicit_graph { devices: ['a', 'b'] cables { a: 'a' b: 'b' } }",
       "cables.0.link.latency_ns: got 'nothing'"},
  };
  for (const auto& test : cases)
    EXPECT_THAT(error_of(test.text), HasSubstr(test.error)) << test.text;
}

TEST(Topology, AtMostFourLinkClasses) {
  std::string text = "explicit_graph { devices: ['a', 'b'] ";
  for (int i = 0; i < 5; ++i) {
    text += "cables { a: 'a' b: 'b' link_class: 'c" + std::to_string(i) +
            "' link { latency_ns: 1 gb_per_s: 1 } } ";
  }
  EXPECT_THAT(error_of(text + "}"),
              HasSubstr("got 'link class c4', expected at most 4 link classes"));
}

TEST(Topology, SetFieldReachesTheFabric) {
  Fabric fabric = shipped_fabric("ascend950-mesh8");
  emu::set_field(fabric, "order_scope", "queue_pair", "--set");
  emu::set_field(fabric, "full_mesh.dimensions", "4,4", "--set");
  EXPECT_EQ(fabric.order_scope(), Fabric::QUEUE_PAIR);
  EXPECT_EQ(build_topology(fabric, "mesh").devices, 16u);
  EXPECT_THROW(emu::set_field(fabric, "clos.planes", "3", "--set"), emu::ConfigError);
  EXPECT_TRUE(fabric.has_full_mesh());
}

}  // namespace
}  // namespace orrery::fabric
