// The machine around: fences of every scope, hot spots, and where the devices stand. The T numbers
// are those of the project's notes on algorithms. For every algorithm of tested_algorithms.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tests/moe/runs.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;

double counter(const Result& result, const std::string& name) {
  const auto found = result.counters().find(name);
  return found == result.counters().end() ? 0 : found->second;
}

const Operation& operation(const Result& result, const std::string& name) {
  for (const Operation& each : result.operations()) {
    if (each.name() == name) return each;
  }
  throw std::out_of_range(name);
}
double latency(const Result& result, const std::string& name) {
  return operation(result, name).latency_us().max();
}

class CommonFabric : public testing::TestWithParam<TestedAlgorithm> {
 protected:
  bool has_setting(const std::string& field) const {
    const Settings& settings = GetParam().settings;
    return std::any_of(settings.begin(), settings.end(),
                       [&field](const auto& setting) { return setting.first == field; });
  }
};

// A fence that must drain costs time; rows, messages and bytes stay what they are.
TEST_P(CommonFabric, T18_TheScopeOfFencesChangesTimesAlone) {
  RunConfig run = GetParam().run(4, 3, make_workload(8, 2, 6, 300, 8));
  const Result ordered = good_run(run);
  for (const auto scope : {Fabric::CORE_PAIR, Fabric::NONE}) {
    // An algorithm without its fences needs the order: T15.
    if (has_setting("algorithm.release")) break;
    SCOPED_TRACE(Fabric::OrderScope_Name(scope));
    run.machine.mutable_fabric()->set_order_scope(scope);
    const Result other = good_run(run);
    EXPECT_EQ(other.output_digest(), ordered.output_digest());
    for (const char* same : {"puts", "gets", "signals", "fences", "bytes_put", "bytes_got"}) {
      if (GetParam().has_credits) break;  // how many it takes depends on who comes when
      EXPECT_EQ(counter(other, same), counter(ordered, same)) << same;
    }
    if (scope == Fabric::CORE_PAIR || counter(ordered, "fences") == 0) continue;
    EXPECT_GT(counter(other, "drains"), counter(ordered, "drains"));
    const auto both = [](const Result& result) {
      return latency(result, "dispatch") + latency(result, "combine");
    };
    EXPECT_GT(both(other), both(ordered));
  }
}

// All rows of all devices to one device, into windows that must have room for them, over its links.
TEST_P(CommonFabric, T25_IncastTakesWhatTheLinksOfTheHotDeviceTake) {
  constexpr double kBytesPerNs = 2;  // of the two links of a device: slow, or its cores hide them
  constexpr std::uint32_t kDevices = 8;
  const Workload tokens = make_workload(8, 1, 16, 2048, 8);
  RunConfig run = GetParam().run(kDevices, 8, routed(tokens, {{5}}));
  run.machine.mutable_fabric()->mutable_clos()->mutable_device_link()->set_gb_per_s(kBytesPerNs /
                                                                                    2);
  run.iterations = 1;
  const Result hot = good_run(run);
  const double remote = operation(hot, "dispatch").bytes_useful() * (kDevices - 1) / kDevices;
  EXPECT_GE(latency(hot, "dispatch"), remote / kBytesPerNs / 1000);
  EXPECT_GE(latency(hot, "combine"), remote / kBytesPerNs / 1000);
  run.adversary = true;
  EXPECT_EQ(good_run(run).output_digest(), hot.output_digest());

  run.adversary = false;
  run.workload = routed(tokens, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  const Result even = good_run(run);
  // Beyond the capacity rows are dropped: a hot spot then costs no more than any other.
  if (has_setting("algorithm.capacity_factor")) {
    EXPECT_LT(operation(hot, "dispatch").bytes_useful(),
              operation(even, "dispatch").bytes_useful());
  } else {
    EXPECT_GT(latency(hot, "dispatch"), latency(even, "dispatch"));
  }
}

TEST_P(CommonFabric, T26_TwoDiesTwoHopsAndMixedPlacements) {
  const auto on = [](std::uint32_t devices, const std::string& placement, bool adversary) {
    RunConfig run = shipped_run("cm384", GetParam().algorithm, devices, GetParam().settings,
                                make_workload(8, 2, 4));
    run.placement = placement;
    run.iterations = 2;
    run.adversary = adversary;
    return good_run(run);
  };
  const Result package = on(2, "0,1", false);  // two dies of an NPU: past the switches
  EXPECT_EQ(counter(package, "puts_over_1_switches"), 0);
  EXPECT_EQ(counter(package, "puts_over_3_switches"), 0);
  const Result far = on(2, "0,16", false);  // two nodes
  EXPECT_EQ(counter(far, "puts_over_1_switches"), 0);
  EXPECT_GT(counter(far, "puts_over_3_switches"), 0);
  EXPECT_EQ(far.output_digest(), package.output_digest());
  for (const char* operation : {"dispatch", "combine"}) {
    // The launch of a kernel that receives takes longer than the way.
    if (has_setting("algorithm.hook") || has_setting("algorithm.split")) {
      EXPECT_GE(latency(far, operation), latency(package, operation));
    } else {
      EXPECT_GT(latency(far, operation), latency(package, operation));
    }
  }
  const Result packed = on(6, "packed", false);
  for (const char* placement : {"spread", "0,1,16,17,32,5"}) {
    for (const bool adversary : {false, true}) {
      const Result other = on(6, placement, adversary);
      EXPECT_EQ(other.output_digest(), packed.output_digest()) << placement;
      EXPECT_GT(counter(other, "puts_over_3_switches"), 0) << placement;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CommonFabric, testing::ValuesIn(tested_algorithms()),
                         [](const testing::TestParamInfo<TestedAlgorithm>& tested) {
                           return tested.param.name();
                         });

}  // namespace
}  // namespace orrery::moe
