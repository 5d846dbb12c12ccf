// The dragonfly generator and its minimal paths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/bisection.h"
#include "fabric/routing.h"
#include "tests/fabric/counts.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::HasSubstr;
using Counts = std::map<std::string, int>;

const std::string kLinks =
    " nic_link { latency_ns: 1 gb_per_s: 4 } local { latency_ns: 10 gb_per_s: 4 }"
    " global { latency_ns: 100 gb_per_s: 4 } ";

// The classes of a path's links, e.g. "nlgln".
std::string path(const Topology& topology, const Routing& routing, NodeId from, NodeId to,
                 std::uint32_t choice) {
  std::string classes;
  for (NodeId node = from; node != to;) {
    const Routing::Step step = routing.next_step(node, to, choice);
    if (step.link == kNoLink) return "none";
    const Link& link = topology.links[step.link];
    const std::string& name = topology.link_classes[link.link_class];
    classes += name == "NIC-switch" ? 'n' : name.front();
    node = link.to;
    choice = step.choice;
  }
  return classes;
}

TEST(Dragonfly, CountsOfEveryKind) {
  const Topology topology = topology_of(
      "dragonfly { groups: 5 switches_per_group: 4 nodes_per_group: 6 devices_per_node: 2"
      " local_cables: 2 global_cables: 3 scale_up { link { latency_ns: 1 gb_per_s: 9 } }" +
      kLinks + "}");
  EXPECT_EQ(topology.devices, 60u);
  EXPECT_EQ(topology.devices_per_node, 2u);
  EXPECT_FALSE(topology.devices_forward);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 60}, {1, 30}, {2, 20}}));
  EXPECT_EQ(links_per_class(topology), (Counts{{"scale-up", 2 * 60},
                                               {"NIC-switch", 2 * 60},
                                               {"local", 2 * 5 * 6 * 2},
                                               {"global", 2 * 10 * 3}}));
  EXPECT_TRUE(topology.is_scale_out(0, 2));
  EXPECT_FALSE(topology.is_scale_out(0, 1));
}

TEST(Dragonfly, GlobalCablesAreDealtEvenlyOverTheSwitchesOfAGroup) {
  const Topology topology = topology_of(
      "dragonfly { groups: 5 switches_per_group: 4 nodes_per_group: 4 devices_per_node: 1"
      " global_cables: 3" +
      kLinks + "}");
  for (NodeId node = topology.devices; node < topology.nodes(); ++node) {
    int global = 0;
    for (const Link& link : topology.links_from(node))
      global += topology.link_classes[link.link_class] == "global" ? 1 : 0;
    EXPECT_EQ(global, 3) << topology.names[node];  // 4 groups * 3 cables over 4 switches
  }
}

TEST(Dragonfly, NodesFillTheirBlocksOfSwitches) {
  const Topology topology = topology_of(
      "dragonfly { groups: 2 switches_per_group: 4 nodes_per_group: 4 devices_per_node: 4"
      " switches_per_node: 2" +
      kLinks + "}");
  const auto switch_of = [&](NodeId device) {
    return topology.names[topology.links_from(device)[0].to];
  };
  EXPECT_EQ(switch_of(0), "group0 switch0");
  EXPECT_EQ(switch_of(1), "group0 switch1");
  EXPECT_EQ(switch_of(2), "group0 switch0");
  EXPECT_EQ(switch_of(7), "group0 switch1");   // node 1
  EXPECT_EQ(switch_of(8), "group0 switch2");   // node 2
  EXPECT_EQ(switch_of(31), "group1 switch3");  // the last
}

// One global link and at most one local one on either side, even where a third group is nearer by
// two global links: with 5 groups and one cable per pair every switch has one.
TEST(Dragonfly, PathsAreLocalGlobalLocalAtMost) {
  const Topology topology = topology_of(
      "dragonfly { groups: 5 switches_per_group: 4 nodes_per_group: 4 devices_per_node: 1" +
      kLinks + "}");
  const Routing routing(topology);
  std::map<std::string, int> seen;
  for (NodeId from = 0; from < topology.devices; ++from) {
    for (NodeId to = 0; to < topology.devices; ++to) {
      if (from == to) continue;
      for (const std::uint32_t choice : {0u, 1u, 7u}) {
        const std::string way = path(topology, routing, from, to, choice);
        ++seen[way];
        const bool same_group = from / 4 == to / 4;
        EXPECT_EQ(std::count(way.begin(), way.end(), 'g'), same_group ? 0 : 1) << way;
      }
    }
  }
  // A device each: 3 others of its group; of 16 beyond, one behind its switch's own cable, 3 behind
  // that cable and a local link, 3 behind a local link and a cable, 9 behind all three.
  EXPECT_EQ(seen, (std::map<std::string, int>{{"nln", 20 * 3 * 3},
                                              {"ngn", 20 * 1 * 3},
                                              {"ngln", 20 * 3 * 3},
                                              {"nlgn", 20 * 3 * 3},
                                              {"nlgln", 20 * 9 * 3}}));
  EXPECT_EQ(routing.latency(0, 1, 0), 12'000);
}

TEST(Dragonfly, ParallelCablesAreAllUsed) {
  const Topology topology = topology_of(
      "dragonfly { groups: 2 switches_per_group: 1 nodes_per_group: 1 devices_per_node: 2"
      " global_cables: 3" +
      kLinks + "}");
  const Routing routing(topology);
  EXPECT_EQ(routing.choices(4, 3), 3u);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 2 * 4.0);  // two NICs
  const Topology thin = topology_of(
      "dragonfly { groups: 2 switches_per_group: 1 nodes_per_group: 1 devices_per_node: 2" +
      kLinks + "}");
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(thin), 4.0);  // one cable
}

TEST(Dragonfly, OneGroupAndOneSwitch) {
  const Topology group = topology_of(
      "dragonfly { groups: 1 switches_per_group: 2 nodes_per_group: 2 devices_per_node: 1"
      " nic_link { latency_ns: 1 gb_per_s: 4 } local { latency_ns: 10 gb_per_s: 4 } }");
  EXPECT_EQ(Routing(group).switches(0, 1), 2);
  const Topology one = topology_of(
      "dragonfly { groups: 1 switches_per_group: 1 nodes_per_group: 3 devices_per_node: 1"
      " nic_link { latency_ns: 1 gb_per_s: 4 } }");
  EXPECT_EQ(Routing(one).switches(0, 2), 1);
}

TEST(Dragonfly, BadSizesAreRefused) {
  const std::string sizes =
      "dragonfly { groups: 2 switches_per_group: 2 nodes_per_group: 2 devices_per_node: 2 ";
  const std::string nic = "nic_link { latency_ns: 1 gb_per_s: 4 } ";
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"dragonfly {}", "fabric.dragonfly.groups: got 'nothing', expected the number of groups"},
      {"dragonfly { groups: 2 }", "fabric.dragonfly.switches_per_group: got 'nothing'"},
      {"dragonfly { groups: 2 switches_per_group: 2 }",
       "fabric.dragonfly.nodes_per_group: got 'nothing'"},
      {"dragonfly { groups: 2 switches_per_group: 2 nodes_per_group: 2 }",
       "fabric.dragonfly.devices_per_node: got 'nothing'"},
      {sizes + "switches_per_node: 3 }",
       "fabric.dragonfly.switches_per_node: got '3', expected a divisor of switches_per_group, "
       "which is 2"},
      {sizes + "}", "fabric.dragonfly.nic_link.latency_ns: got 'nothing'"},
      {sizes + nic + "}", "fabric.dragonfly.local.latency_ns: got 'nothing'"},
      {sizes + nic + "local { latency_ns: 1 gb_per_s: 4 } }",
       "fabric.dragonfly.global.latency_ns: got 'nothing'"},
      {sizes + nic + "scale_up { link { latency_ns: 1 } } }",
       "fabric.dragonfly.scale_up.link.gb_per_s: got 'nothing'"},
      {"dragonfly { groups: 4096 switches_per_group: 4096 nodes_per_group: 65536"
       " devices_per_node: 65536 scale_up { form: FULL_MESH planes: 256 } }",
       "devices and switches', expected at most 1048576"},
      {"dragonfly { groups: 1 switches_per_group: 1 nodes_per_group: 1 devices_per_node: 65536"
       " scale_up { form: FULL_MESH planes: 256 } }",
       "cables', expected at most 33554432"},
      {"dragonfly { groups: 128 switches_per_group: 4096 nodes_per_group: 1 devices_per_node: 1"
       " local_cables: 64 global_cables: 65536 }",
       "cables', expected at most 33554432"},
  };
  for (const auto& test : cases)
    EXPECT_THAT(error_of(test.text), HasSubstr(test.error)) << test.text;
}

TEST(Dragonfly, Perlmutter) {
  const Topology topology = build_topology(shipped_fabric("perlmutter"), "perlmutter");
  EXPECT_EQ(topology.devices, 1024u);
  EXPECT_EQ(nodes_per_tier(topology), (std::map<int, int>{{0, 1024}, {2, 64}}));
  EXPECT_EQ(links_per_class(topology), (Counts{{"scale-up", 2 * 256 * 6},
                                               {"NIC-switch", 2 * 1024},
                                               {"local", 2 * 2 * 32 * 31 / 2},
                                               {"global", 2 * 16}}));
  for (NodeId node = 1024; node < topology.nodes(); ++node)
    EXPECT_LE(topology.links_from(node).size(), 64u);  // ports of a switch
  const Routing routing(topology);
  EXPECT_EQ(path(topology, routing, 0, 3, 5), "s");      // NVLink
  EXPECT_EQ(path(topology, routing, 0, 4, 5), "nn");     // next node, same switch of the chassis
  EXPECT_EQ(path(topology, routing, 0, 5, 5), "nln");    // another switch of the chassis
  EXPECT_EQ(path(topology, routing, 0, 511, 5), "nln");  // another chassis
  EXPECT_EQ(path(topology, routing, 300, 1023, 5),
            "nlgln");  // the other group, switches without global cables
  EXPECT_EQ(routing.latency(0, 4, 0), 370'000);
  for (std::uint32_t choice = 0; choice < 64; ++choice)
    EXPECT_EQ(routing.latency(1023, 0, choice), routing.latency(1023, 0, 0));
}

}  // namespace
}  // namespace orrery::fabric
