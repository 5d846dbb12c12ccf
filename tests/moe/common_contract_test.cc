// What algorithms rely on, held against what fabrics give, and what a run says when a put is
// missing. The T numbers are those of the project's notes on algorithms. For every algorithm of
// tested_algorithms.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "emu/errors.h"
#include "moe/algorithm.h"
#include "moe/gate.h"
#include "moe/workload.h"
#include "tests/moe/runs.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;
using testing::ContainsRegex;

constexpr std::uint32_t kDevices = 4;
constexpr std::uint32_t kCores = 4;

bool has_option(const std::string& algorithm, const std::string& option) {
  const auto& options = find_algorithm(algorithm).options;
  return std::any_of(options.begin(), options.end(),
                     [&](const OptionSpec& spec) { return spec.name == option; });
}

// --- T14, T15: order and atomic blocks ---

// What the run's algorithm relies on, with the options that the run sets.
Contract contract_of(const RunConfig& config) {
  const devices::Costs costs(config.machine.device());
  const std::uint32_t experts = config.workload.experts();
  std::vector<RoutingTable> tables{route(config.workload, config.devices, config.seed, 0, nullptr)};
  std::vector<Arrivals> arrivals{Arrivals(tables[0])};
  const Problem problem{config.workload,
                        costs,
                        config.devices,
                        token_bound(config.workload, config.devices, "test"),
                        1,
                        config.seed,
                        false,
                        1,
                        config.machine.fabric().atomic_block_bytes(),
                        emu::from_ns(1000),
                        std::vector<std::uint32_t>(config.devices, 0),
                        ExpertPlacement(experts, config.devices),
                        std::move(tables),
                        std::move(arrivals),
                        Experts(config.workload, config.seed, ExpertKind::kCheapTransform)};
  const AlgorithmEntry& entry = find_algorithm(config.algorithm);
  Options options(entry.options);
  for (const auto& [field, value] : config.settings) options.set(field.substr(10), value);
  return entry.make(problem, options)->contract();
}

bool is_met(const Contract& contract, const Fabric& fabric) {
  if (fabric.atomic_block_bytes() < contract.atomic_block_bytes) return false;
  switch (contract.order) {
    case Contract::Order::kNone:
      return true;
    case Contract::Order::kSignals:  // where all puts are ordered, they are
    case Contract::Order::kCorePair:
      return fabric.order_scope() == Fabric::DEVICE_PAIR ||
             fabric.order_scope() == Fabric::CORE_PAIR;
    case Contract::Order::kDevicePair:
      return fabric.order_scope() == Fabric::DEVICE_PAIR;
  }
  return false;
}

class CommonContract : public testing::TestWithParam<TestedAlgorithm> {
 protected:
  // Every core sends rows of several blocks to every device, and some more than others, so that
  // whoever does not wait for what it should is early.
  RunConfig config(std::uint64_t seed) const {
    RunConfig made = GetParam().run(kDevices, kCores, make_workload(8, 2, 18, 700, 8));
    made.iterations = 2;
    made.adversary = true;
    made.seed = seed;
    return made;
  }
};

// Where a fabric gives what the algorithm says it relies on, no seed of the adversary breaks it;
// where it gives less, some seed does.
TEST_P(CommonContract, T14_T15_SaysWhatTheAlgorithmReliesOn) {
  constexpr std::uint64_t kSeedsThatPass = 8;
  constexpr std::uint64_t kSeedsToBreakIt = 60;
  for (const auto scope : {Fabric::DEVICE_PAIR, Fabric::CORE_PAIR, Fabric::NONE}) {
    for (const std::uint32_t block : {512u, 64u, 32u}) {
      RunConfig run = config(1);
      run.machine = small_machine(kDevices, kCores, block);
      run.machine.mutable_fabric()->set_order_scope(scope);
      const std::string where = Fabric::OrderScope_Name(scope) + " " + std::to_string(block);
      if (is_met(contract_of(run), run.machine.fabric())) {
        for (std::uint64_t seed = 1; seed <= kSeedsThatPass; ++seed) {
          run.seed = seed;
          const RunOutcome outcome = run_alone(run);
          EXPECT_EQ(outcome.hang, "") << where << ", seed " << seed;
          EXPECT_TRUE(outcome.result.verified()) << where << ", seed " << seed << "\n"
                                                 << failures_of(outcome.result);
        }
        continue;
      }
      bool caught = false;
      for (std::uint64_t seed = 1; seed <= kSeedsToBreakIt && !caught; ++seed) {
        run.seed = seed;
        caught = is_caught(run);
      }
      EXPECT_TRUE(caught) << where << ": the contract asks for more than the algorithm needs";
    }
  }
}

// --- T27: schedules and placements ---

TEST_P(CommonContract, T27_PlacementsAndMachinesDoNotChangeTheOutput) {
  RunConfig run = config(5);
  run.adversary = false;
  const Result reference = good_run(run);
  for (const std::uint32_t cores : {1u, 2u, 7u}) {
    RunConfig other = run;
    other.machine = small_machine(kDevices, cores, GetParam().atomic_block_bytes);
    EXPECT_EQ(good_run(other).output_digest(), reference.output_digest()) << cores << " cores";
  }
  for (const char* placement : {"spread", "3,1,0,2"}) {
    RunConfig other = run;
    other.placement = placement;
    EXPECT_EQ(good_run(other).output_digest(), reference.output_digest()) << placement;
  }
  run.adversary = true;
  EXPECT_EQ(good_run(run).output_digest(), reference.output_digest());
}

// Reduction in ascending k is what all others define: one format of payload, one output.
TEST(CommonContractOfAll, T27_AlgorithmsGiveTheSameOutput) {
  std::map<std::string, std::string> outputs;  // by payload
  const auto expect_same = [&outputs](const RunConfig& run, const std::string& payload) {
    const std::string digest = good_run(run).output_digest();
    const auto [first, added] = outputs.emplace(payload, digest);
    if (!added) {
      EXPECT_EQ(digest, first->second) << run.algorithm << " " << payload;
    }
  };
  for (const TestedAlgorithm& tested : tested_algorithms()) {
    const bool drops = std::any_of(
        tested.settings.begin(), tested.settings.end(),
        [](const auto& setting) { return setting.first == "algorithm.capacity_factor"; });
    if (drops || tested.sums_in_groups) continue;
    RunConfig run = tested.run(kDevices, kCores, make_workload(8, 3, 9));
    if (!has_option(tested.algorithm, "quantise")) {
      expect_same(run, "bf16");
      continue;
    }
    const bool given =
        std::any_of(tested.settings.begin(), tested.settings.end(),
                    [](const auto& setting) { return setting.first == "algorithm.quantise"; });
    for (const char* payload : {"int8", "bf16"}) {
      if (given) break;
      RunConfig each = run;
      each.settings.emplace_back("algorithm.quantise", payload);
      expect_same(each, payload);
    }
  }
  EXPECT_EQ(outputs.size(), 2u);
}

// --- T11: calls without others in between ---

// With --operation a call of dispatch follows the one before at once: no combine keeps devices
// together.
TEST_P(CommonContract, T11_DispatchesAloneDoNotMeet) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    RunConfig run = config(seed);
    run.workload = make_workload(8, 2, 6);
    run.workload.set_jitter_ns(100'000);
    run.adversary = seed % 2 == 0;
    run.iterations = 8;
    run.operation = "dispatch";
    good_run(run);
  }
}

// --- T28: a put that is missing ---

// Device 0 forgets one put after the other. Every time the run must end, and say so: most often in
// a hang report that names who waits, at which address, and for whom.
TEST_P(CommonContract, T28_AMissingPutIsReported) {
  std::uint32_t hangs = 0;
  std::uint64_t number = 1;
  std::vector<std::uint64_t> unheard;
  for (;; ++number) {
    // Enough tokens that every device has rows for every expert: no put carries nothing of use.
    RunConfig run = GetParam().run(kDevices, 2, make_workload(4, 2, 8, 64, 8));
    run.iterations = 1;
    run.lost_put = {0, number};
    RunOutcome outcome;
    try {
      outcome = run_alone(run);
    } catch (const emu::InvariantError&) {
      continue;  // read what was given up
    }
    if (!outcome.put_lost) {
      EXPECT_EQ(outcome.hang, "");
      EXPECT_TRUE(outcome.result.verified());
      break;  // there are no more
    }
    if (outcome.hang.empty() && outcome.result.verified()) unheard.push_back(number);
    if (outcome.hang.empty()) continue;
    EXPECT_THAT(outcome.hang, ContainsRegex("device [0-9]+ core [0-9]+ \\([a-z]+, iteration 0\\): "
                                            "polls [^;]*address 0x[0-9a-f]+"))
        << "put " << number;
    // Whoever got a wrong row instead may leave others waiting for theirs.
    EXPECT_THAT(outcome.hang, ContainsRegex("expected writer: device 0|before that: "))
        << "put " << number;
    if (outcome.hang.find("expected writer: device 0") != std::string::npos) ++hangs;
  }
  // Of the last call's farewells nobody hears; of all else somebody does.
  std::vector<std::uint64_t> farewells;
  if (GetParam().tells_next_call) {
    for (std::uint32_t peer = 1; peer < kDevices; ++peer) {
      farewells.push_back(number - kDevices + peer);
    }
  }
  if (!GetParam().has_credits) {
    EXPECT_EQ(unheard, farewells);
  }
  EXPECT_GT(number, 16u);
  EXPECT_GT(hangs, number / 6);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CommonContract, testing::ValuesIn(tested_algorithms()),
                         [](const testing::TestParamInfo<TestedAlgorithm>& tested) {
                           return tested.param.name();
                         });

}  // namespace
}  // namespace orrery::moe
