#include "fabric/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/bisection.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Bisection, CloudMatrix384IsNonBlocking) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 384 * 196.0);
}

TEST(Bisection, ClosedForms) {
  // Node 0 against node 1: two planes of one 10 GB/s uplink, where four device links would
  // carry 40.
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(build_topology(shipped_fabric("tiny"), "tiny")), 20);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(build_topology(shipped_fabric("star"), "star")), 128 * 50.0);
  EXPECT_NEAR(bisection_gb_per_s(build_topology(shipped_fabric("ascend950-mesh8"), "mesh")),
              16 * shipped_fabric("ascend950-mesh8").full_mesh().links(0).gb_per_s(), 1e-9);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(kSmallFabrics[0])), 0);   // one device
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology_of(kSmallFabrics[10])), 2);  // a ring is cut twice
}

TEST(Summary, LatencyClassesOfCloudMatrix384) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  const std::vector<LatencyClass> classes = latency_classes(topology, Routing(topology));
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].pairs, 768u);
  EXPECT_EQ(classes[0].least_latency, 218'000);
  EXPECT_EQ(classes[1].pairs, 768u * 14);
  EXPECT_EQ(classes[1].least_latency, 929'000);
  EXPECT_EQ(classes[2].pairs, 768u * 752);
  EXPECT_EQ(classes[2].links, 4);
  EXPECT_EQ(classes[2].switches, 3);
  EXPECT_EQ(classes[2].most_latency, 2'500'000);
}

TEST(Summary, MeanLatencyIsOfThosePortsThatAreReached) {
  const Topology topology = build_topology(shipped_fabric("cm384"), "cm384");
  const Routing routing(topology);
  // The other die, a die of the same node, two of another.
  const std::vector<NodeId> ports{0, 1, 2, 16, 17};
  EXPECT_EQ(mean_latency(routing, ports), (218'000 + 929'000 + 2 * 2'500'000) / 4);
  EXPECT_EQ(mean_latency(routing, std::vector<NodeId>{5}), 0);

  Fabric cut = fabric_of(
      "clos { nodes: 2 devices_per_node: 2 planes: 1 device_link { latency_ns: 5 gb_per_s: 2 }"
      " uplink { latency_ns: 7 gb_per_s: 2 } }");
  const Topology whole = build_topology(cut, "whole");
  EXPECT_EQ(mean_latency(Routing(whole), std::vector<NodeId>{0, 1, 2}), (10'000 + 24'000) / 2);
  cut.add_failed_links(whole.names[2] + "-" + whole.names[whole.devices + 1]);
  const Topology parted = build_topology(cut, "parted");
  EXPECT_EQ(mean_latency(Routing(parted), std::vector<NodeId>{0, 1, 2}), 10'000);
}

TEST(Summary, ASampleOfSourcesStandsForAll) {
  const Topology topology = topology_of(
      "clos { nodes: 80 devices_per_node: 16 planes: 2 device_link { latency_ns: 5 gb_per_s: 2 }"
      " uplink { latency_ns: 7 gb_per_s: 2 } }");
  const std::vector<LatencyClass> classes = latency_classes(topology, Routing(topology));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].pairs, 1280u * 15);
  EXPECT_EQ(classes[1].pairs, 1280u * 1264);
}

TEST(Summary, SaysWhatATopologyIs) {
  const Fabric fabric = shipped_fabric("cm384");
  const Topology topology = build_topology(fabric, "cm384");
  const std::string text = summarise(topology, Routing(topology), fabric);
  for (const char* part :
       {"tier 1 switches       336", "tier 2 switches       112",
        "L1-L2                 5376   785.5", "75264 gb_per_s", "diameter              4 links",
        "512 bytes", "device_pair, whole", "round_robin per put", "10752   929", "577536"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
  for (const char* small : kSmallFabrics) {
    const Topology other = topology_of(small);
    EXPECT_THAT(summarise(other, Routing(other), fabric_of(small)), HasSubstr("diameter")) << small;
  }
}

TEST(Summary, DotDrawsEveryCableOfASmallTopology) {
  const std::string dot = to_dot(build_topology(shipped_fabric("tiny"), "tiny"));
  EXPECT_THAT(dot, HasSubstr("n4 [label=\"L1 node0 plane0\", shape=ellipse];"));
  std::size_t cables = 0;
  for (std::size_t at = dot.find(" -- "); at != std::string::npos; at = dot.find(" -- ", at + 1))
    ++cables;
  EXPECT_EQ(cables, 12u) << dot;
}

TEST(Summary, DotMergesALargeTopology) {
  const std::string dot = to_dot(build_topology(shipped_fabric("cm384"), "cm384"));
  EXPECT_THAT(dot, HasSubstr("// 11136 cables"));
  EXPECT_THAT(dot, HasSubstr("label=\"16 like die0\""));
  EXPECT_THAT(dot, HasSubstr("label=\"16 like L2 plane6 spine0\""));
  EXPECT_THAT(dot, Not(HasSubstr("\"die1\"")));
}

TEST(Summary, DotEscapesNames) {
  const std::string dot = to_dot(topology_of("explicit_graph { devices: 'a\"\\n\\\\' }"));
  EXPECT_THAT(dot, HasSubstr("label=\"a\\\" \\\\\""));
}

}  // namespace
}  // namespace orrery::fabric
