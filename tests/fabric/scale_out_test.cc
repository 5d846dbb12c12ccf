// The scale_out generator: two networks, and who talks over which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emu/text_config.h"
#include "fabric/bisection.h"
#include "fabric/failures.h"
#include "fabric/routing.h"
#include "tests/fabric/counts.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Counts = std::map<std::string, int>;

const std::string kScaleUp = " scale_up { link { latency_ns: 10 gb_per_s: 100 } }";
const std::string kNic = " nic_link { latency_ns: 20 gb_per_s: 5 }";
const std::string kUplink = " uplink { latency_ns: 30 gb_per_s: 5 }";

// Four nodes of four devices in two pods, rail-optimised, two spines.
std::string rails(const std::string& more) {
  return "scale_out { nodes: 4 devices_per_node: 4 rail_optimised: true nodes_per_pod: 2 spines: "
         "2" +
         kNic + kUplink + more + "}";
}

// Links, switches and latency of the way between two devices, for every choice alike.
struct Way {
  int links, switches;
  emu::Time latency_ns;
  bool operator==(const Way&) const = default;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.links << " links, " << way.switches << " switches, " << way.latency_ns << " ns";
}

Way way(const Topology& topology, NodeId from, NodeId to) {
  const Routing routing(topology);
  const emu::Time latency = routing.latency(from, to, 0);
  for (std::uint32_t choice = 1; choice < 64; ++choice)
    EXPECT_EQ(routing.latency(from, to, choice), latency) << from << " to " << to;
  return {routing.hops(from, to), routing.switches(from, to), latency / 1000};
}

TEST(ScaleOut, HasANodeSwitchPerNodeAndALeafPerRailOfAPod) {
  const Topology topology = topology_of(rails(kScaleUp));
  EXPECT_EQ(topology.devices, 16u);
  EXPECT_EQ(topology.devices_per_node, 4u);
  EXPECT_FALSE(topology.devices_forward);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 16}, {1, 4}, {2, 8}, {3, 2}}));
  EXPECT_EQ(links_per_class(topology),
            (Counts{{"scale-up", 2 * 16}, {"NIC-leaf", 2 * 16}, {"leaf-spine", 2 * 16}}));
  const std::span<const Link> links = topology.links_from(6);  // node 1, rail 2
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(topology.names[links[0].to], "up node1 plane0");
  EXPECT_EQ(topology.names[links[1].to], "leaf pod0 rail2");
  EXPECT_EQ(topology.names[topology.links_from(15)[1].to], "leaf pod1 rail3");
  EXPECT_EQ(topology.names.back(), "spine1");
}

TEST(ScaleOut, SameRailTakesOneLeafAndOtherRailsASpine) {
  const Topology topology = topology_of(rails(kScaleUp));
  EXPECT_EQ(way(topology, 0, 3), (Way{2, 1, 20}));    // same node
  EXPECT_EQ(way(topology, 0, 4), (Way{2, 1, 40}));    // same rail, same pod
  EXPECT_EQ(way(topology, 0, 5), (Way{4, 3, 100}));   // other rail, same pod
  EXPECT_EQ(way(topology, 0, 8), (Way{4, 3, 100}));   // same rail, other pod
  EXPECT_EQ(way(topology, 0, 15), (Way{4, 3, 100}));  // other rail, other pod
}

TEST(ScaleOut, WithoutRailsDevicesOfANodeShareALeafAndStillKeepToTheirSwitch) {
  const Topology topology =
      topology_of("scale_out { nodes: 4 devices_per_node: 4 nodes_per_pod: 2 spines: 2" + kNic +
                  kUplink + kScaleUp + "}");
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 16}, {1, 4}, {2, 2}, {3, 2}}));
  EXPECT_EQ(way(topology, 0, 3), (Way{2, 1, 20}));  // though the leaf is as near
  EXPECT_EQ(Routing(topology).choices(0, 3), 1u);
  EXPECT_EQ(way(topology, 0, 5), (Way{2, 1, 40}));
  EXPECT_EQ(way(topology, 0, 15), (Way{4, 3, 100}));
}

TEST(ScaleOut, DomainsAreNodes) {
  const Topology topology = topology_of(rails(kScaleUp));
  for (NodeId a = 0; a < topology.devices; ++a) {
    for (NodeId b = 0; b < topology.devices; ++b)
      EXPECT_EQ(topology.is_scale_out(a, b), a / 4 != b / 4) << a << " and " << b;
  }
  // With and without scale-up links, it is those that the first link of a path belongs to.
  const Routing routing(topology);
  for (NodeId peer = 1; peer < topology.devices; ++peer) {
    const Link& first = topology.links[routing.next_link(0, peer, 0)];
    EXPECT_EQ(first.link_class == topology.scale_up_class, !topology.is_scale_out(0, peer));
  }
}

TEST(ScaleOut, WithoutScaleUpAllTalkOverTheirNics) {
  Fabric fabric = fabric_of(rails(kScaleUp));
  emu::set_field(fabric, "scale_out.scale_up.enabled", "false", "--set");
  for (const Topology& topology : {build_topology(fabric, "off"), topology_of(rails("")),
                                   topology_of(rails(" scale_up { enabled: false }"))}) {
    EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 16}, {2, 8}, {3, 2}}));
    EXPECT_EQ(way(topology, 0, 3), (Way{4, 3, 100}));  // another rail of the own node
    EXPECT_EQ(way(topology, 0, 4), (Way{2, 1, 40}));
    EXPECT_TRUE(topology.is_scale_out(0, 3));
    EXPECT_FALSE(topology.is_scale_out(3, 3));
    EXPECT_EQ(topology.devices_per_node, 4u);  // nodes there are still
  }
}

TEST(ScaleOut, OneNodeWithScaleUpNeedsNoNics) {
  const Topology topology =
      topology_of("scale_out { nodes: 1 devices_per_node: 8" + kScaleUp + "}");
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 8}, {1, 1}}));
  EXPECT_EQ(links_per_class(topology), (Counts{{"scale-up", 16}}));
  EXPECT_FALSE(topology.is_scale_out(0, 7));
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 4 * 100.0);
  // Without it a node has them.
  const Topology nics = topology_of("scale_out { nodes: 1 devices_per_node: 8" + kNic + "}");
  EXPECT_EQ(links_per_class(nics), (Counts{{"NIC-leaf", 16}}));
  EXPECT_TRUE(nics.is_scale_out(0, 7));
}

TEST(ScaleOut, DirectCablesInsideANode) {
  const Topology topology = topology_of(
      rails(" scale_up { form: FULL_MESH link { latency_ns: 10 gb_per_s: 100 } planes: 3 }"));
  EXPECT_EQ(links_per_class(topology),
            (Counts{{"scale-up", 2 * 4 * 6 * 3}, {"NIC-leaf", 2 * 16}, {"leaf-spine", 2 * 16}}));
  EXPECT_EQ(topology.planes, 3u);
  EXPECT_EQ(way(topology, 0, 3), (Way{1, 0, 10}));
  EXPECT_EQ(Routing(topology).choices(0, 3), 3u);
  EXPECT_EQ(way(topology, 0, 5), (Way{4, 3, 100}));
}

TEST(ScaleOut, SeveralNicsAreOnRailsOfTheirOwn) {
  const Topology topology = topology_of(rails(" nics_per_device: 2"));
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 16}, {2, 16}, {3, 2}}));
  const std::span<const Link> links = topology.links_from(2);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(topology.names[links[0].to], "leaf pod0 rail4");
  EXPECT_EQ(topology.names[links[1].to], "leaf pod0 rail5");
  EXPECT_EQ(Routing(topology).choices(0, 4), 2u);
}

// Between the pods: 8 uplinks to a spine and back, where the NICs of 8 devices send 40 GB/s.
TEST(ScaleOut, BisectionIsThatOfTheUplinks) {
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(rails(kScaleUp))), 8 * 5);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(rails(" uplinks_per_spine: 4"))), 8 * 5);
  const std::string leaf = "scale_out { nodes: 4 devices_per_node: 4 nodes_per_pod: 2 spines: 2" +
                           kNic + kUplink + kScaleUp;
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(leaf + "}")), 2 * 5);  // 4 times oversubscribed
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(leaf + " uplinks_per_spine: 3 }")), 6 * 5);
}

TEST(ScaleOut, ParallelUplinksAreAllUsed) {
  const Topology topology = topology_of(rails(" uplinks_per_spine: 3"));
  const Routing routing(topology);
  const Routing::Step up = routing.next_step(0, 15, 0);
  const NodeId leaf = topology.links[up.link].to;
  EXPECT_EQ(routing.choices(leaf, 15), 6u);
  std::map<NodeId, int> first_two;
  for (std::uint32_t choice : {0u, 1u})
    ++first_two[topology.links[routing.next_link(leaf, 15, choice)].to];
  EXPECT_EQ(first_two.size(), 2u) << "every spine before a second cable to one";
}

TEST(ScaleOut, UnevenPodsAndPodsBeyondTheNodes) {
  const std::string text = "scale_out { nodes: 3 devices_per_node: 2" + kNic + kUplink;
  EXPECT_EQ(nodes_per_tier(topology_of(text + " nodes_per_pod: 2 }")),
            (std::map<int, int>{{0, 6}, {2, 2}, {3, 1}}));
  EXPECT_EQ(nodes_per_tier(topology_of(text + " nodes_per_pod: 9 }")),
            (std::map<int, int>{{0, 6}, {2, 1}}));
}

TEST(ScaleOut, WithItsScaleUpLinkFailedADeviceIsCutOffFromItsNode) {
  Fabric fabric = fabric_of(rails(kScaleUp));
  fabric.add_failed_links("device1-up.node0.plane0");
  const Topology topology = build_topology(fabric, "cut");
  const Routing routing(topology);
  EXPECT_EQ(routing.hops(1, 2), -1);
  EXPECT_EQ(routing.hops(2, 1), -1);
  EXPECT_EQ(routing.hops(0, 2), 2);
  EXPECT_EQ(routing.hops(1, 5), 2);  // its NIC is well
  EXPECT_THROW(check_reachable(topology, routing, {0, 1}, fabric, "cut"), emu::ConfigError);
  EXPECT_NO_THROW(check_reachable(topology, routing, {1, 5}, fabric, "cut"));
  Fabric planes = fabric_of(rails(" scale_up { link { latency_ns: 10 gb_per_s: 100 } planes: 2 }"));
  planes.add_failed_planes(0);
  EXPECT_EQ(way(build_topology(planes, "planes"), 1, 2), (Way{2, 1, 20}));
}

TEST(ScaleOut, BadSizesAreRefused) {
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"scale_out {}", "fabric.scale_out.nodes: got 'nothing', expected the number of nodes"},
      {"scale_out { nodes: 2 }", "fabric.scale_out.devices_per_node: got 'nothing'"},
      {"scale_out { nodes: 2 devices_per_node: 2 }", "fabric.scale_out.nic_link.latency_ns: got"},
      {"scale_out { nodes: 2 devices_per_node: 2 scale_up { } " + kNic + "}",
       "fabric.scale_out.scale_up.link.latency_ns: got 'nothing'"},
      {"scale_out { nodes: 2 devices_per_node: 2 rail_optimised: true" + kNic + "}",
       "fabric.scale_out.uplink.latency_ns: got 'nothing'"},
      {"scale_out { nodes: 65536 devices_per_node: 65536 }",
       "fabric.scale_out: got '4294967297 devices and switches', expected at most 1048576"},
      {"scale_out { nodes: 65536 devices_per_node: 65536 rail_optimised: true nodes_per_pod: 1"
       " nics_per_device: 64 spines: 4096 uplinks_per_spine: 1024 }",
       "devices and switches', expected at most 1048576"},
      {"scale_out { nodes: 64 devices_per_node: 8192 scale_up { form: FULL_MESH planes: 256 } }",
       "cables', expected at most 33554432"},
      {"scale_out { nodes: 1024 devices_per_node: 8 nodes_per_pod: 1 spines: 4096"
       " uplinks_per_spine: 1024 }",
       "cables', expected at most 33554432"},
      {"scale_out { nodes: 2 devices_per_node: 2 spines: 0 }",
       "scale_out.spines: got '0', expected an integer from 1 to 4096"},
  };
  for (const auto& test : cases)
    EXPECT_THAT(error_of(test.text), HasSubstr(test.error)) << test.text;
}

// --- Shipped machines ---

TEST(ScaleOut, H100IbIsTwoScalableUnits) {
  const Topology topology = build_topology(shipped_fabric("h100-ib"), "h100-ib");
  EXPECT_EQ(topology.devices, 512u);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 512}, {1, 64}, {2, 16}, {3, 8}}));
  EXPECT_EQ(links_per_class(topology),
            (Counts{{"scale-up", 2 * 512}, {"NIC-leaf", 2 * 512}, {"leaf-spine", 2 * 512}}));
  for (NodeId leaf = 512 + 64; leaf < 512 + 64 + 16; ++leaf)
    EXPECT_EQ(topology.links_from(leaf).size(), 64u);  // ports
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 256 * 50.0);
  EXPECT_EQ(way(topology, 0, 7), (Way{2, 1, 700}));     // NVLink
  EXPECT_EQ(way(topology, 0, 248), (Way{2, 1, 300}));   // same rail
  EXPECT_EQ(way(topology, 0, 9), (Way{4, 3, 1000}));    // other rail
  EXPECT_EQ(way(topology, 0, 256), (Way{4, 3, 1000}));  // other scalable unit
}

TEST(ScaleOut, H800IbDiffersInItsNvlinkAlone) {
  Fabric h100 = shipped_fabric("h100-ib");
  const Fabric h800 = shipped_fabric("h800-ib");
  EXPECT_NE(h100.SerializeAsString(), h800.SerializeAsString());
  h100.mutable_scale_out()->mutable_scale_up()->mutable_link()->set_gb_per_s(
      h800.scale_out().scale_up().link().gb_per_s());
  EXPECT_EQ(h100.SerializeAsString(), h800.SerializeAsString());
}

TEST(ScaleOut, NicsOfAGpuReachFiftyGbPerS) {
  for (const char* name : {"h100-ib", "h800-ib", "h200-roce", "p5en-efa"}) {
    const Topology topology = build_topology(shipped_fabric(name), name);
    double nics = 0;
    for (const Link& link : topology.links_from(9)) {
      if (topology.link_classes[link.link_class] == "NIC-leaf") nics += link.rate.gb_per_s();
    }
    EXPECT_DOUBLE_EQ(nics, 50) << name;
    EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), topology.devices / 2 * 50.0) << name;
  }
}

TEST(ScaleOut, H200Nvl8IsOneDomain) {
  const Topology topology = build_topology(shipped_fabric("h200-nvl8"), "h200-nvl8");
  EXPECT_EQ(topology.devices, 8u);
  EXPECT_FALSE(topology.is_scale_out(0, 7));
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 4 * 450.0);
}

}  // namespace
}  // namespace orrery::fabric
