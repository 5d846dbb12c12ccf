// Closed forms of a torus: what a ring per dimension comes to.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fabric/bisection.h"
#include "fabric/routing.h"
#include "fabric/summary.h"
#include "fabric/topology.h"
#include "tests/fabric/counts.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using ::testing::ElementsAre;

Topology torus_of(const std::vector<std::uint32_t>& sizes) {
  return topology_of(
      fmt::format("torus {{ dimensions: [{}] links {{ latency_ns: 10 gb_per_s: 4 }} }}",
                  fmt::join(sizes, ", ")));
}

std::uint32_t product(const std::vector<std::uint32_t>& sizes) {
  std::uint32_t devices = 1;
  for (const std::uint32_t size : sizes) devices *= size;
  return devices;
}

// Links of the shorter way round every ring.
std::uint32_t distance(std::uint32_t a, std::uint32_t b, const std::vector<std::uint32_t>& sizes) {
  std::uint32_t sum = 0;
  for (const std::uint32_t size : sizes) {
    const std::uint32_t forward = (b % size + size - a % size) % size;
    sum += std::min(forward, size - forward);
    a /= size;
    b /= size;
  }
  return sum;
}

// Ways of that length: an order of the steps, and either way round half an even ring.
std::uint64_t shortest_paths(std::uint32_t a, std::uint32_t b,
                             const std::vector<std::uint32_t>& sizes) {
  std::uint64_t ways = 1;
  std::uint32_t steps = 0;
  for (const std::uint32_t size : sizes) {
    const std::uint32_t forward = (b % size + size - a % size) % size;
    const std::uint32_t along = std::min(forward, size - forward);
    for (std::uint32_t i = 1; i <= along; ++i) ways = ways * ++steps / i;
    if (size > 2 && 2 * along == size) ways *= 2;
    a /= size;
    b /= size;
  }
  return ways;
}

std::uint64_t paths(const Topology& topology, const Routing& routing, NodeId node,
                    NodeId destination) {
  if (node == destination) return 1;
  std::uint64_t sum = 0;
  for (std::uint32_t choice = 0; choice < routing.choices(node, destination); ++choice) {
    const LinkId link = routing.next_link(node, destination, choice);
    sum += paths(topology, routing, topology.links[link].to, destination);
  }
  return sum;
}

const std::vector<std::vector<std::uint32_t>> kSizes = {
    {1}, {2}, {3}, {4}, {7}, {4, 4}, {2, 5}, {3, 4, 2}, {4, 4, 4}, {2, 2, 2, 2}, {1, 6, 1, 3, 2}};

TEST(Torus, HasARingPerDimension) {
  for (const auto& sizes : kSizes) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(sizes, "x")));
    const Topology topology = torus_of(sizes);
    const std::uint32_t devices = product(sizes);
    EXPECT_EQ(topology.devices, devices);
    EXPECT_EQ(topology.nodes(), devices);  // no switches
    std::uint32_t neighbours = 0;
    for (const std::uint32_t size : sizes) neighbours += size > 2 ? 2 : size - 1;
    EXPECT_EQ(topology.links.size(), std::size_t{devices} * neighbours);
    std::map<std::pair<NodeId, NodeId>, int> cables;
    for (NodeId device = 0; device < devices; ++device) {
      EXPECT_EQ(topology.links_from(device).size(), neighbours);
      for (const Link& link : topology.links_from(device)) {
        EXPECT_EQ((++cables[{link.from, link.to}]), 1) << "a double cable";
        EXPECT_EQ(distance(link.from, link.to, sizes), 1u);
      }
    }
  }
}

TEST(Torus, RoutingTakesTheShorterWayRoundEveryRing) {
  for (const auto& sizes : kSizes) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(sizes, "x")));
    const Topology topology = torus_of(sizes);
    const Routing routing(topology);
    std::uint32_t diameter = 0;
    for (const std::uint32_t size : sizes) diameter += size / 2;
    std::uint32_t farthest = 0;
    for (NodeId a = 0; a < topology.devices; ++a) {
      for (NodeId b = 0; b < topology.devices; ++b) {
        const std::uint32_t links = distance(a, b, sizes);
        farthest = std::max(farthest, links);
        ASSERT_EQ(routing.hops(a, b), static_cast<int>(links)) << a << " to " << b;
        ASSERT_EQ(routing.switches(a, b), 0);
        ASSERT_EQ(routing.latency(a, b, 7), links * 10'000);
      }
    }
    EXPECT_EQ(farthest, diameter);
    for (NodeId b = 0; b < topology.devices; ++b) {
      ASSERT_EQ(paths(topology, routing, 0, b), shortest_paths(0, b, sizes)) << "0 to " << b;
    }
  }
}

TEST(Torus, DimensionsHaveClassesAndLinksOfTheirOwn) {
  const Topology grid = topology_of(
      "torus { dimensions: [4, 2, 3] links { latency_ns: 1 gb_per_s: 1 } links { latency_ns: 2 "
      "gb_per_s: 2 } links { latency_ns: 3 gb_per_s: 3 } }");
  EXPECT_EQ(links_per_class(grid),
            (std::map<std::string, int>{{"torus0", 24 * 2}, {"torus1", 24}, {"torus2", 24 * 2}}));
  for (const Link& link : grid.links) {
    const NodeId apart = std::max(link.from, link.to) - std::min(link.from, link.to);
    const std::uint32_t dimension = apart >= 8 ? 2 : apart == 4 ? 1 : 0;
    EXPECT_EQ(link.link_class, dimension) << link.from << " to " << link.to;
    EXPECT_EQ(link.latency, (dimension + 1) * 1000);
  }
  EXPECT_THAT(torus_of({5}).link_classes, ElementsAre("torus"));
  EXPECT_THAT(torus_of({2, 2, 2, 2}).link_classes,
              ElementsAre("torus0", "torus1", "torus2", "torus3"));
  EXPECT_THAT(torus_of({2, 2, 2, 2, 2}).link_classes,
              ElementsAre("torus0", "torus1", "torus2", "torus3+"));
}

// An even ring of size n is cut twice, and there are as many rings as devices over n.
TEST(Torus, Bisection) {
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(torus_of({8})), 2 * 4.0);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(torus_of({4, 4})), 2 * 4 * 4.0);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(torus_of({4, 4, 4})), 2 * 16 * 4.0);
  EXPECT_DOUBLE_EQ(bisection_gb_per_s(torus_of({2})), 4.0);  // one cable
}

TEST(Torus, SummaryCountsPairsByLinks) {
  const Topology topology = torus_of({4, 4, 4});
  const std::vector<LatencyClass> classes = latency_classes(topology, Routing(topology));
  // (1 + 2x + x^2)^3: so many devices x links away, of each of 64.
  std::map<int, std::uint64_t> pairs;
  for (const LatencyClass& each : classes) pairs[each.links] += each.pairs;
  EXPECT_EQ(pairs,
            (std::map<int, std::uint64_t>{
                {1, 64 * 6}, {2, 64 * 15}, {3, 64 * 20}, {4, 64 * 15}, {5, 64 * 6}, {6, 64 * 1}}));
}

}  // namespace
}  // namespace orrery::fabric
