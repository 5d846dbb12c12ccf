#include "cli/suite_runs.h"

#include <gmock/gmock.h>

#include "cli/commands.h"
#include "emu/errors.h"
#include "emu/text_config.h"
#include "moe/suite.h"
#include "tests/cli/program.h"
#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;

const std::string kHead =
    "timed: 't' byte_formula: 'b' common { topology: 'tiny' algorithm: 'ring' devices: 4 "
    "operation: 'put' source: 's' settings: 'algorithm.bytes=4096' } ";

moe::Suite suite_with(const std::string& rows) {
  return moe::load_suite(scratch_file("runs.suite.textproto", kHead + rows));
}

Prediction predicted(const std::string& row) {
  const emu::ProcessGroup alone;
  SuiteRuns runs(alone, "auto", "test");
  return runs.predict(suite_with(row).rows(0));
}

double ring_us(const std::string& bytes) {
  RunOptions options = run_options("tiny", "ring", "4", {"algorithm.bytes=" + bytes});
  options.align = true;
  return run_result(options).operations(0).latency_us().max();
}

TEST(SuiteRuns, ALatencyIsThatOfARun) {
  const Prediction prediction = predicted("rows { id: 'r' published_us: 5 }");
  EXPECT_EQ(prediction.code, kOk);
  EXPECT_DOUBLE_EQ(prediction.value, ring_us("4096"));
  EXPECT_EQ(prediction.picked, "");
}

TEST(SuiteRuns, ARatioIsOfTwoRuns) {
  const std::string longer = " baseline { settings: 'algorithm.bytes=65536' } }";
  const double ratio = ring_us("4096") / ring_us("65536");
  EXPECT_DOUBLE_EQ(predicted("rows { id: 'r' metric: RATIO published: 1" + longer).value, ratio);
  EXPECT_DOUBLE_EQ(
      predicted("rows { id: 'r' metric: REDUCTION_PERCENT published: 1" + longer).value,
      100 * (1 - ratio));
}

TEST(SuiteRuns, OfSeveralBaselinesTheFastestCounts) {
  const auto speedup = [](const std::string& baselines) {
    return predicted("rows { id: 'r' metric: SPEEDUP published: 1 " + baselines + " }");
  };
  const std::string slower = "baseline { settings: 'algorithm.bytes=65536' } ";
  const std::string slowest = "baseline { settings: 'algorithm.bytes=131072' } ";
  EXPECT_DOUBLE_EQ(speedup(slower).value, ring_us("65536") / ring_us("4096"));
  EXPECT_EQ(speedup(slower).picked, "");
  EXPECT_DOUBLE_EQ(speedup(slowest + slower).value, speedup(slower).value);
  EXPECT_EQ(speedup(slowest + slower).picked, "against ring");
}

TEST(SuiteRuns, OneOfSeveralCasesIsPicked) {
  const std::string row =
      "rows { id: 'r' published_us: 5 cases { devices: 2 } cases { devices: 4 }";
  const Prediction largest = predicted(row + " pick: LARGEST }");
  EXPECT_EQ(largest.picked, "tiny on 4 devices");
  EXPECT_DOUBLE_EQ(largest.value, ring_us("4096"));
  const Prediction smallest = predicted(row + " pick: SMALLEST }");
  EXPECT_EQ(smallest.picked, "tiny on 2 devices");
  EXPECT_LT(smallest.value, largest.value);
}

// Aligned, an operation takes as long whatever comes after it.
TEST(SuiteRuns, ARunMayEndWithItsOperation) {
  const auto dispatch_us = [](const std::string& more) {
    const moe::Suite suite = moe::load_suite(scratch_file(
        "ends.suite.textproto",
        "timed: 't' byte_formula: 'b' rows { id: 'r' role: EXTRA topology: 'tiny' devices: 4"
        " algorithm: 'cann-bsp' operation: 'dispatch' iterations: 2 " +
            more + "}"));
    const emu::ProcessGroup alone;
    SuiteRuns runs(alone, "auto", "test");
    return runs.predict(suite.rows(0)).value;
  };
  EXPECT_EQ(dispatch_us("ends_run: true "), dispatch_us(""));
}

// More tokens, more time: the ends of the list, whatever its order.
TEST(SuiteRuns, OneOfSeveralNumbersOfTokensIsPicked) {
  const std::string row =
      "rows { id: 'r' published_us: 5 algorithm: 'cann-bsp' operation: 'dispatch' tokens: [2, 8, 1]"
      " payload: 'control' ";
  moe::Suite suite = moe::load_suite(scratch_file(
      "picked.suite.textproto",
      "timed: 't' byte_formula: 'b' common { topology: 'tiny' devices: 4 source: 's' } " + row +
          "pick: LARGEST } "));
  const emu::ProcessGroup alone;
  SuiteRuns runs(alone, "auto", "test");
  const Prediction largest = runs.predict(suite.rows(0));
  EXPECT_EQ(largest.picked, "8 tokens");
  suite.mutable_rows(0)->set_pick(moe::Row::SMALLEST);
  const Prediction smallest = runs.predict(suite.rows(0));
  EXPECT_EQ(smallest.picked, "1 token");
  EXPECT_LT(smallest.value, largest.value);
}

TEST(SuiteRuns, SettingsGoOnTopOfARows) {
  const emu::ProcessGroup alone;
  SuiteRuns runs(alone, "auto", "test");
  const moe::Suite suite = suite_with("rows { id: 'r' published_us: 5 }");
  EXPECT_DOUBLE_EQ(runs.predict(suite.rows(0), {"algorithm.bytes=65536"}).value, ring_us("65536"));
  EXPECT_DOUBLE_EQ(runs.predict(suite.rows(0)).value, ring_us("4096"));
}

TEST(SuiteRuns, WhatIsWrongWithARowSaysWhich) {
  const emu::ProcessGroup alone;
  const SuiteRuns runs(alone, "auto", "my.suite");
  const moe::Suite suite =
      suite_with("rows { id: 'r' metric: RATIO published: 1 baseline { devices: 5 } }");
  try {
    runs.check(suite.rows(0));
    FAIL() << "a fifth device of four";
  } catch (const emu::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("my.suite: row r: --devices: got '5'"));
  }
}

TEST(SuiteRuns, WhatFailsIsToldWithItsCode) {
  const auto code = [](const std::string& sabotage) {
    const moe::Suite suite = moe::load_suite(scratch_file(
        "failing.suite.textproto",
        "timed: 't' byte_formula: 'b' rows { id: 'r' role: EXTRA topology: 'tiny' devices: 4"
        " algorithm: 'cann-bsp' operation: 'dispatch' settings: 'algorithm.sabotage=" +
            sabotage + "' }"));
    const emu::ProcessGroup alone;
    SuiteRuns runs(alone, "auto", "test");
    const Prediction prediction = runs.predict(suite.rows(0));
    EXPECT_NE(prediction.failed, "") << sabotage;
    return prediction.code;
  };
  EXPECT_EQ(code("wrong-slot"), kFailed);
  EXPECT_EQ(code("drop-status"), kHang);
}

}  // namespace
}  // namespace orrery::cli
