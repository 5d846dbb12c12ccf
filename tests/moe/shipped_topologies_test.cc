// Every shipped machine loads, and bytes travel on it.
#include <gtest/gtest.h>

#include "fabric/topology.h"
#include "tests/fabric/fabrics.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

TEST(ShippedTopologies, LoadAndCarryPuts) {
  const std::vector<std::string> names = fabric::shipped_topologies();
  ASSERT_GE(names.size(), 14u);
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
