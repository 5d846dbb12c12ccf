// Every outcome that a fabric allows is seen, and no other, whatever combination of rules it has: a
// rule that the engine breaks shows as a forbidden outcome, one that nothing tests as an unseen
// one.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "litmus/runner.h"

namespace orrery::litmus {
namespace {

constexpr const char* kTiny = "topologies/tiny.textproto";
constexpr std::uint64_t kSeeds = 150;

std::vector<const Program*> all_programs() {
  std::vector<const Program*> all;
  for (const Program& program : programs()) all.push_back(&program);
  return all;
}

std::vector<Tally> tally(const devices::Overrides& overrides, std::uint64_t seeds) {
  const devices::Machine machine = devices::load_machine(kTiny, overrides);
  const Runner runner(machine, kTiny, all_programs(), "spread");
  std::vector<Tally> tallies = runner.tallies();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const bool adversary : {false, true}) {
      const Runner::Run run = runner.run({seed, adversary});
      EXPECT_EQ(run.hang, "");
      if (run.hang.empty()) count(tallies, run);
    }
  }
  return tallies;
}

using Rules = std::tuple<const char*, const char*, const char*, const char*>;

std::string name_of(const testing::TestParamInfo<Rules>& rules) {
  const auto& [scope, kind, ack, block] = rules.param;
  return std::string(scope) + "_" + kind + "_" + ack + "_" + block;
}

class Promises : public testing::TestWithParam<Rules> {};

TEST_P(Promises, WhatIsAllowedIsSeenAndNothingElse) {
  const auto& [scope, kind, ack, block] = GetParam();
  const std::vector<Tally> tallies = tally({{"fabric.order_scope", scope},
                                            {"fabric.order_kind", kind},
                                            {"fabric.ack_at", ack},
                                            {"fabric.atomic_block_bytes", block}},
                                           kSeeds);
  for (const Tally& each : tallies) {
    ASSERT_EQ(each.skipped, "") << each.program->name;
    for (std::size_t i = 0; i < each.outcomes.size(); ++i) {
      const OutcomeCount& outcome = each.outcomes[i];
      EXPECT_EQ(outcome.total() > 0, each.verdict.allowed[i])
          << each.program->name << ": \"" << each.program->outcomes[i] << "\" seen "
          << outcome.plain << "+" << outcome.adversary << " times, first with seed "
          << outcome.first.seed << " (" << each.verdict.because << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Promises,
    testing::Combine(testing::Values("DEVICE_PAIR", "CORE_PAIR", "QUEUE_PAIR", "NONE"),
                     testing::Values("WHOLE", "FIRST_FRAGMENT"),
                     testing::Values("VISIBLE", "RECEIVED"), testing::Values("64", "512")),
    name_of);

// A count that follows its data over one queue says nothing where the fabric orders nothing: a run
// shows it in old and in torn data. It holds where queues are in order.
TEST(OneQueue, ACountIsRightUnlessOrderScopeIsNone) {
  for (const std::string scope : {"DEVICE_PAIR", "QUEUE_PAIR", "NONE"}) {
    for (const Tally& each : tally({{"fabric.order_scope", scope}}, kSeeds)) {
      const std::string& name = each.program->name;
      if (name != "message" && name != "count-one-queue" && name != "atomic") continue;
      for (const std::size_t wrong : {1u, 2u}) {  // data old, data torn
        EXPECT_EQ(each.outcomes[wrong].total() > 0, scope == "NONE") << name << ", " << scope;
      }
    }
  }
}

}  // namespace
}  // namespace orrery::litmus
