// Shapes of a layer that tests of layers of one kernel run, each with an algorithm and settings of
// their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {

inline void expect_good_seeds(RunConfig config) {
  for (const std::uint64_t seed : {1, 2, 77}) {
    config.seed = seed;
    const RunOutcome outcome = run_alone(config);
    ASSERT_EQ(outcome.hang, "") << "seed " << seed;
    ASSERT_TRUE(outcome.result.verified()) << "seed " << seed << "\n"
                                           << failures_of(outcome.result);
  }
}

// `config` makes the run of so many devices and cores with a workload.

template <typename Config>
void expect_devices_without_tokens(const Config& config) {
  for (const std::vector<std::uint32_t>& counts :
       {std::vector<std::uint32_t>{0, 4, 4, 4}, {5, 0, 0, 0}, {0, 0, 0, 7}, {1, 17, 0, 3}}) {
    Workload workload = make_workload(8, 2, 4);
    for (const std::uint32_t each : counts) workload.add_tokens_per_device(each);
    expect_good_seeds(config(4, 5, workload));
  }
  expect_good_seeds(config(4, 4, make_workload(8, 2, 0)));
}

template <typename Config>
void expect_skewed_destinations(const Config& config) {
  expect_good_seeds(config(4, 5, routed(make_workload(8, 2, 4), {{0, 1}, {4, 7}, {6, 5}, {1, 0}})));
  for (const int expert : {0, 3, 7}) {
    expect_good_seeds(config(4, 5, routed(make_workload(8, 1, 9), {{expert}})));
  }
}

template <typename Config>
void expect_masked_and_repeated_choices(const Config& config) {
  expect_good_seeds(
      config(4, 5, routed(make_workload(8, 3, 5), {{-1, 1, 2}, {3, -1, 4}, {-1, -1, 7}})));
  expect_good_seeds(config(4, 5, routed(make_workload(8, 2, 4), {{-1, -1}})));
  Workload masked = make_workload(8, 4, 6);
  masked.mutable_gate()->set_masked_share(0.5);
  expect_good_seeds(config(4, 5, masked));
  Workload repeated = make_workload(8, 3, 4);
  repeated.mutable_gate()->set_allow_duplicates(true);
  expect_good_seeds(config(4, 5, routed(repeated, {{5, 5, 5}, {5, 0, 5}, {-1, 2, 2}})));
}

template <typename Config>
void expect_any_number_of_devices_and_experts(const Config& config) {
  expect_good_seeds(config(1, 4, make_workload(3, 2, 5)));
  expect_good_seeds(config(2, 5, make_workload(3, 2, 5)));
  expect_good_seeds(config(3, 5, make_workload(7, 3, 5)));
  expect_good_seeds(config(6, 5, make_workload(4, 2, 5)));  // devices without experts
  expect_good_seeds(config(5, 9, make_workload(64, 4, 3)));
}

}  // namespace orrery::moe
