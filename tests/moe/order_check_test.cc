// --check over whole runs: silent on every shipped algorithm, with the adversary off and on, and
// not on those that are broken on purpose though their output is right.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "tests/moe/runs.h"
#include "tests/moe/tested_algorithms.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

class CleanAlgorithm : public testing::TestWithParam<TestedAlgorithm> {};

TEST_P(CleanAlgorithm, OnSmallMachines) {
  expect_clean(GetParam().run(4, 3, make_workload(8, 2, 6)));
  expect_clean(GetParam().run(3, 2, make_workload(7, 3, 5, 48)));
  expect_clean(GetParam().run(1, 4, make_workload(4, 2, 9)));
}

TEST_P(CleanAlgorithm, WithMaskedAndUnevenTokens) {
  Workload workload = make_workload(8, 2, 6);
  workload.mutable_gate()->set_masked_share(0.4);
  for (const std::uint32_t tokens : {0u, 6u, 1u, 3u}) workload.add_tokens_per_device(tokens);
  expect_clean(GetParam().run(4, 3, workload));
}

TEST_P(CleanAlgorithm, WhenDevicesDriftApart) {
  Workload workload = make_workload(8, 2, 6);
  workload.set_jitter_ns(40000);
  RunConfig config = GetParam().run(4, 2, workload);
  config.iterations = 6;
  expect_clean(config);
}

TEST_P(CleanAlgorithm, WithRowsOfSeveralPackets) {
  RunConfig config = GetParam().run(4, 4, make_workload(8, 2, 4, 1536));
  expect_clean(config);
  config.control = true;
  expect_clean(config);
}

// No combine keeps devices together then.
TEST_P(CleanAlgorithm, WhenItDispatchesAlone) {
  Workload workload = make_workload(8, 2, 6);
  workload.set_jitter_ns(40000);
  RunConfig config = GetParam().run(4, 3, workload);
  config.iterations = 6;
  config.operation = "dispatch";
  expect_clean(config);
}

// The check and the algorithm's own word for what it relies on agree, fabric by fabric.
TEST_P(CleanAlgorithm, WhereTheFabricGivesTheOrderThatItReliesOnAndNowhereElse) {
  for (const auto scope : {fabric::Fabric::DEVICE_PAIR, fabric::Fabric::CORE_PAIR,
                           fabric::Fabric::QUEUE_PAIR, fabric::Fabric::NONE}) {
    RunConfig config = GetParam().run(4, 3, make_workload(8, 2, 12));
    config.machine.mutable_fabric()->set_order_scope(scope);
    config.check = true;
    const Result result = run_alone(config).result;
    const bool gives = std::none_of(
        result.notes().begin(), result.notes().end(),
        [](const std::string& note) { return note.find("relies on order") != std::string::npos; });
    EXPECT_EQ(findings_of(result).empty(), gives) << fabric::Fabric::OrderScope_Name(scope) << "\n"
                                                  << findings_of(result);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CleanAlgorithm, testing::ValuesIn(tested_algorithms()),
                         [](const auto& test) { return test.param.name(); });

TEST(OrderCheck, BenchmarksAreClean) {
  for (const char* algorithm : {"p2p", "ring", "alltoall"}) {
    for (const char* scope : {"DEVICE_PAIR", "CORE_PAIR", "NONE"}) {
      for (const char* completion : {"flag", "flush"}) {
        SCOPED_TRACE(std::string(algorithm) + " " + scope + " " + completion);
        RunConfig config =
            shipped_run("tiny", algorithm, 4,
                        {{"fabric.order_scope", scope}, {"algorithm.completion", completion}});
        config.iterations = 5;
        expect_clean(config);
        config.control = true;
        expect_clean(config);
      }
    }
  }
}

TEST(OrderCheck, CannBspIsCleanOnTheMachineItWasWrittenFor) {
  expect_clean(shipped_run("cm384", "cann-bsp", 18));
}

// No fabric without an order between the puts of all cores of a device carries it.
TEST(OrderCheck, CannBspIsNotWithoutTheOrderItRestsOn) {
  for (const char* scope : {"NONE", "CORE_PAIR"}) {
    RunConfig config = shipped_run("tiny", "cann-bsp", 4, {{"fabric.order_scope", scope}});
    config.check = true;
    const Result result = good_run(config);
    EXPECT_THAT(findings_of(result), HasSubstr("accepted bytes that nothing proves complete"));
    EXPECT_THAT(findings_of(result), HasSubstr("accept by device")) << scope;
    EXPECT_THAT(findings_of(result), HasSubstr("(dispatch, copy out, iteration 0)"));
    EXPECT_THAT(findings_of(result), HasSubstr("is not ordered after put by device"));
    EXPECT_THAT(findings_of(result), HasSubstr("(dispatch, send tokens, iteration 0, issued)"));
  }
}

// Its release is a quiet on such a fabric, and a quiet proves to the device's other cores no more
// than that the rows were received.
TEST(OrderCheck, DeepEpIsNotWhereAnAcknowledgementMeansReception) {
  for (const auto ack_at : {fabric::Fabric::VISIBLE, fabric::Fabric::RECEIVED}) {
    RunConfig config = small_run("deepep-ll", 4, 4, make_workload(8, 2, 8));
    config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
    config.machine.mutable_fabric()->set_ack_at(ack_at);
    config.check = true;
    const Result result = run_alone(config).result;
    if (ack_at == fabric::Fabric::VISIBLE) {
      EXPECT_EQ(findings_of(result), "");
    } else {
      EXPECT_THAT(findings_of(result), HasSubstr("accepted bytes that nothing proves complete"));
      EXPECT_THAT(findings_of(result), HasSubstr("(dispatch, receive, iteration 0)"));
    }
  }
}

// The seeded bug of the whole layer: its output is right, its statuses follow nothing.
TEST(OrderCheck, SkippedSyncAllIsNamedThoughTheOutputIsRight) {
  RunConfig config = shipped_run("tiny", "cann-bsp", 4, {{"algorithm.sabotage", "skip-syncall"}});
  config.check = true;
  const Result result = good_run(config);
  ASSERT_FALSE(result.check().findings().empty());
  EXPECT_FALSE(passed(result));
  const OrderFinding& finding = result.check().findings(0);
  EXPECT_EQ(finding.kind(), "accepted bytes that nothing proves complete");
  EXPECT_EQ(finding.second().phase(), "copy out");
  EXPECT_EQ(finding.second().verb(), "accept");
  EXPECT_EQ(finding.first().phase(), "send tokens");
  EXPECT_EQ(finding.first().verb(), "put");
}

TEST(OrderCheck, ChangesNothingElse) {
  RunConfig config = small_run("cann-bsp", 4, 3, make_workload(8, 2, 6));
  Result without = good_run(config);
  EXPECT_FALSE(without.has_check());
  config.check = true;
  Result with = good_run(config);
  EXPECT_TRUE(with.has_check());
  with.clear_check();
  for (Result* each : {&with, &without}) each->clear_host();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(with, without));
}

TEST(OrderCheck, TellsBeforeAHang) {
  RunConfig config = small_run("cann-bsp", 4, 4, make_workload(8, 2, 8));
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.settings = {{"algorithm.sabotage", "drop-status"}};
  config.check = true;
  EXPECT_THAT(run_alone(config).hang, HasSubstr("\ncheck: accepted bytes that nothing proves"));
}

TEST(OrderCheck, RefusesWhatItCannotHold) {
  RunConfig config = shipped_run("cm384", "alltoall", 40);
  config.check = true;
  try {
    run_alone(config);
    ADD_FAILURE() << "ran";
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--check: got '40 devices', expected at most 32"));
  }
  config = shipped_run("tiny", "alltoall", 4);
  config.check = true;
  config.most_accesses = 40;
  try {
    run_alone(config);
    ADD_FAILURE() << "ran";
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("--check: got 'a run of more than 40 accesses', expected fewer"));
  }
}

}  // namespace
}  // namespace orrery::moe
