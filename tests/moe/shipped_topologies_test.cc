// Every shipped machine loads, and bytes travel on it.
#include <gtest/gtest.h>

#include "fabric/topology.h"
#include "tests/fabric/fabrics.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

TEST(ShippedTopologies, LoadAndCarryPuts) {
  const std::vector<std::string> names = fabric::shipped_topologies();
  ASSERT_GE(names.size(), 21u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    for (const char* algorithm : {"p2p", "ring", "alltoall"}) {
      const RunConfig config = shipped_run(name, algorithm, algorithm == std::string("p2p") ? 2 : 4,
                                           {{"algorithm.bytes", "14336"}});
      EXPECT_EQ(config.machine.name(), name);
      EXPECT_FALSE(config.machine.description().empty());
      const Result result = good_run(config);
      EXPECT_GT(result.operations(0).latency_us().max(), 0);
    }
  }
}

// Devices that hand packets on, and switches: rows reach their experts on all of them.
TEST(ShippedTopologies, CarryALayer) {
  for (const char* name : {"ascend950-supernode", "ub-mesh", "hgx-h100", "hgx-h100-hub", "hgx-h200",
                           "mi300x-8", "tpu7x", "trn2"}) {
    SCOPED_TRACE(name);
    RunConfig config = shipped_run(name, "cann-bsp", 8);
    config.iterations = 2;
    const Result result = good_run(config);
    EXPECT_EQ(result.operations_size(), 3);
  }
}

// What the vendors' figures come to: bandwidth out of each device, one way.
TEST(ShippedTopologies, GiveEachDeviceItsPublishedBandwidth) {
  const struct {
    const char* name;
    std::uint32_t devices;
    double gb_per_s;
  } cases[] = {{"tpu7x", 64, 600},   {"trn2", 64, 640},    {"mi300x-8", 8, 448},
               {"hgx-h100", 8, 450}, {"hgx-h200", 8, 450}, {"ub-mesh", 1024, 14 * 53.1 + 6 * 35.4}};
  for (const auto& [name, devices, gb_per_s] : cases) {
    SCOPED_TRACE(name);
    const fabric::Topology topology = fabric::build_topology(fabric::shipped_fabric(name), name);
    EXPECT_EQ(topology.devices, devices);
    for (fabric::NodeId device = 0; device < devices; ++device) {
      double rate = 0;
      for (const fabric::Link& link : topology.links_from(device)) rate += link.rate.gb_per_s();
      ASSERT_NEAR(rate, gb_per_s, 0.1) << device;
    }
  }
}

// One switch between any two of 72, and 900 GB/s out of each.
TEST(ShippedTopologies, OfSeventyTwoDevicesAreOneHopApart) {
  for (const char* name : {"gb200-nvl72", "ualink-72"}) {
    SCOPED_TRACE(name);
    const RunConfig config = shipped_run(name, "alltoall", 72, {{"algorithm.bytes", "4096"}});
    const fabric::Topology topology = fabric::build_topology(config.machine.fabric(), name);
    EXPECT_EQ(topology.devices, 72u);
    double rate = 0;
    for (const fabric::Link& link : topology.links_from(0)) rate += link.rate.gb_per_s();
    EXPECT_DOUBLE_EQ(rate, 900);
    const Result result = good_run(config);
    for (const auto& [counter, value] : result.counters()) {
      if (counter.starts_with("puts_over_")) {
        EXPECT_EQ(value > 0, counter == "puts_over_1_switches") << counter;
      }
    }
  }
}

}  // namespace
}  // namespace orrery::moe
