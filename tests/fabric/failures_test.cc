#include "fabric/failures.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "fabric/bisection.h"
#include "fabric/routing.h"
#include "fabric/summary.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Topology failed(Fabric fabric, const std::vector<std::string>& links,
                const std::vector<std::uint32_t>& planes = {}) {
  for (const std::string& link : links) fabric.add_failed_links(link);
  for (const std::uint32_t plane : planes) fabric.add_failed_planes(plane);
  return build_topology(fabric, "test");
}

std::vector<NodeId> all_devices(const Topology& topology) {
  std::vector<NodeId> ports(topology.devices);
  for (NodeId device = 0; device < topology.devices; ++device) ports[device] = device;
  return ports;
}

template <typename Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Failures, EveryCableFailsByItsNameAlone) {
  for (const char* text : kSmallFabrics) {
    SCOPED_TRACE(text);
    const Topology whole = topology_of(text);
    for (const Link& gone : whole.links) {
      const Topology topology = failed(fabric_of(text), {cable_name(whole, gone)});
      std::vector<std::pair<NodeId, NodeId>> expected;
      for (const Link& link : whole.links) {
        const bool same = std::minmax(link.from, link.to) == std::minmax(gone.from, gone.to);
        if (!same) expected.emplace_back(link.from, link.to);
      }
      std::vector<std::pair<NodeId, NodeId>> left;
      for (NodeId node = 0; node < topology.nodes(); ++node) {
        for (const Link& link : topology.links_from(node)) {
          ASSERT_EQ(link.from, node);
          left.emplace_back(link.from, link.to);
        }
      }
      ASSERT_EQ(left, expected) << cable_name(whole, gone);
      EXPECT_EQ(topology.failed_cables, (whole.links.size() - left.size()) / 2);
      EXPECT_EQ(topology.names, whole.names);
    }
  }
}

TEST(Failures, ALinkIsNamedInAnyReasonableWay) {
  const Fabric tiny = shipped_fabric("tiny");
  for (const char* name :
       {"device3-L1.node1.plane0", "L1.node1.plane0-device3", "device3-L1 node1 plane0",
        "L1 node1 plane0 -> device3", "device3 -- L1 node1 plane0"}) {
    const Topology topology = failed(tiny, {name});
    EXPECT_EQ(topology.failed_cables, 1u) << name;
    ASSERT_EQ(topology.links_from(3).size(), 1u) << name;
    EXPECT_EQ(topology.links_from(3)[0].plane, 1) << name;
  }
  const Fabric dashes = fabric_of(
      "explicit_graph { devices: ['a-b', 'c-d'] switches: 'a' cables: ["
      " {a: 'a-b' b: 'c-d' link { latency_ns: 1 gb_per_s: 1 }},"
      " {a: 'a-b' b: 'a' link { latency_ns: 1 gb_per_s: 1 }} ] }");
  EXPECT_EQ(failed(dashes, {"a-b-c-d"}).links_from(0)[0].to, 2u);
  EXPECT_EQ(failed(dashes, {"a-b-a"}).links_from(0)[0].to, 1u);
}

TEST(Failures, APlaneIsItsCablesAlone) {
  const Topology whole = build_topology(shipped_fabric("cm384"), "cm384");
  const Topology topology = failed(shipped_fabric("cm384"), {}, {6, 0, 6});
  EXPECT_EQ(whole.planes, 7u);
  EXPECT_EQ(topology.failed_cables, 2u * (768 + 48 * 16));
  for (const Link& link : topology.links)
    EXPECT_TRUE(link.plane == kNoPlane || (link.plane > 0 && link.plane < 6));
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(topology), 384 * 140.0);
}

TEST(Failures, BadNamesAreOneLineThatHelps) {
  const Fabric tiny = shipped_fabric("tiny");
  const Fabric star = shipped_fabric("star");
  const struct {
    const Fabric& fabric;
    std::vector<std::string> links;
    std::vector<std::uint32_t> planes;
    const char* error;
  } cases[] = {
      {tiny, {}, {2}, "test: fabric.failed_planes: got '2', expected planes from 0 to 1"},
      {star, {}, {0}, "fabric.failed_planes: got '0', expected none: this fabric has no planes"},
      {tiny, {}, {300}, "failed_planes.0: got '300', expected an integer from 0 to 255"},
      {tiny, {"device3"}, {}, "test: fabric.failed_links: got 'device3', expected a cable as"},
      {tiny, {""}, {}, "got '', expected a cable as orrery topo --links names it, e.g. device0-L1"},
      {tiny, {"device0-device1"}, {}, "got 'device0-device1', expected a cable"},
      {tiny, {"device0-device0"}, {}, "got 'device0-device0', expected a cable"},
      {tiny, {"device3-L1.node1.plane5"}, {}, "(did you mean 'device3-L1.node1.plane0'?)"},
      {star, {"device7-switch", "device256-switch"}, {}, "got 'device256-switch', expected"},
  };
  for (const auto& test : cases) {
    const std::string error = error_of([&] { failed(test.fabric, test.links, test.planes); });
    EXPECT_THAT(error, HasSubstr(test.error));
    EXPECT_THAT(error, Not(HasSubstr("\n")));
  }
}

// Against all paths that routing finds.
TEST(Failures, CutOffPairsAreCounted) {
  const struct {
    const char* name;
    std::vector<std::string> links;
    std::vector<std::uint32_t> planes;
    const char* first;
  } cases[] = {
      {"tiny", {}, {0, 1}, "device0 and device1"},
      {"tiny", {"device2-L1.node1.plane0", "device2-L1.node1.plane1"}, {}, "device0 and device2"},
      {"tiny", {"L1.node0.plane0-L2.plane0.spine0"}, {1}, "device0 and device2"},
      {"tiny", {"device0-L1.node0.plane0"}, {1}, "device0 and device1"},
      {"cm384", {"die4-die5"}, {0, 1, 2, 3, 4, 5, 6}, "die0 and die2"},
      // Device 1 hangs on both planes but hands on nothing from one to the other.
      {"tiny",
       {"device0-L1.node0.plane0", "L1.node1.plane1-L2.plane1.spine0"},
       {},
       "device0 and device2"},
  };
  for (const auto& test : cases) {
    Fabric fabric = shipped_fabric(test.name);
    for (const std::string& link : test.links) fabric.add_failed_links(link);
    for (const std::uint32_t plane : test.planes) fabric.add_failed_planes(plane);
    const Topology topology = build_topology(fabric, "test");
    const Routing routing(topology);
    std::vector<NodeId> ports = all_devices(topology);
    ports.resize(std::min<std::size_t>(ports.size(), 16));
    int pairs = 0;
    int cut_off = 0;
    for (std::size_t a = 0; a < ports.size(); ++a) {
      for (std::size_t b = a + 1; b < ports.size(); ++b) {
        ++pairs;
        cut_off += routing.hops(ports[a], ports[b]) < 0 ? 1 : 0;
      }
    }
    const std::string error =
        error_of([&] { check_reachable(topology, routing, ports, fabric, "test"); });
    EXPECT_THAT(error, HasSubstr("expected a path between every two devices of the run: " +
                                 std::to_string(cut_off) + " of " + std::to_string(pairs) +
                                 " pairs are cut off, first " + test.first));
  }
}

TEST(Failures, OnlyDevicesOfTheRunCount) {
  Fabric fabric = shipped_fabric("tiny");
  for (const char* link : {"device2-L1.node1.plane0", "device2-L1.node1.plane1"})
    fabric.add_failed_links(link);
  const Topology topology = build_topology(fabric, "test");
  const Routing routing(topology);
  EXPECT_NO_THROW(check_reachable(topology, routing, {0, 1, 3}, fabric, "test"));
  EXPECT_THAT(error_of([&] {
                check_reachable(topology, routing, {3, 2}, fabric, "test");
              }),
              HasSubstr("1 of 1 pair is cut off, first device3 and device2"));
}

TEST(Failures, TheSummaryShowsThem) {
  Fabric fabric = shipped_fabric("tiny");
  fabric.add_failed_planes(1);
  fabric.add_failed_links("device3-L1.node1.plane0");
  const Topology topology = build_topology(fabric, "test");
  const std::string text = summarise(topology, Routing(topology), fabric);
  for (const char* part :
       {"planes                2", "failed planes         1",
        "failed link           device3-L1.node1.plane0", "failed cables         7 of 12",
        "device-L1                3   500", "no path", "device-L1         0 to 10",
        "bisection             10 gb_per_s"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
  const Topology whole = topology_of(kSmallFabrics[3]);
  EXPECT_THAT(summarise(whole, Routing(whole), fabric_of(kSmallFabrics[3])),
              Not(HasSubstr("failed")));
}

}  // namespace
}  // namespace orrery::fabric
