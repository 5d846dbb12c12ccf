#include "moe/suite.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "emu/errors.h"

namespace orrery::moe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kHead =
    "timed: 't' byte_formula: 'b' common { topology: 'tiny' algorithm: 'new' devices: 4 "
    "operation: 'put' source: 's' settings: 'algorithm.flag=1' settings: 'device.cores=2' } ";

std::string file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "suite" + std::to_string(getpid()) + ".textproto";
  std::ofstream(path) << text;
  return path;
}

std::string error_of(const std::string& rows) {
  try {
    load_suite(file_with(kHead + rows));
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Suite, EveryShippedOneLoads) {
  int suites = 0;
  for (const auto& entry : std::filesystem::directory_iterator("suites")) {
    if (entry.path().extension() != ".textproto") continue;
    ++suites;
    const Suite suite = load_suite(entry.path());
    EXPECT_EQ(suite.name(), entry.path().stem());
    EXPECT_GT(suite.rows_size(), 0);
  }
  EXPECT_GE(suites, 2);
}

TEST(Suite, ABaselineIsTheRowWithChanges) {
  const Suite suite = load_suite(file_with(
      kHead +
      "rows { id: 'other' metric: RATIO published: 0.5 tokens: [1, 8] pick: LARGEST"
      " settings: 'fabric.header_bytes=4' baseline { algorithm: 'old' settings: 'algorithm.x=2' } }"
      "rows { id: 'same' metric: REDUCTION_PERCENT published: -7"
      " baseline { settings: 'algorithm.flag=2' devices: 2 } }"));
  const Row& other = suite.rows(0);
  EXPECT_EQ(other.baseline(0).algorithm(), "old");
  EXPECT_EQ(other.baseline(0).devices(), 4u);
  EXPECT_THAT(other.settings(),
              ElementsAre("algorithm.flag=1", "device.cores=2", "fabric.header_bytes=4"));
  EXPECT_THAT(other.baseline(0).settings(),
              ElementsAre("device.cores=2", "fabric.header_bytes=4", "algorithm.x=2"));
  EXPECT_EQ(published(other), 0.5);
  const Row& same = suite.rows(1);
  EXPECT_EQ(same.baseline(0).algorithm(), "new");
  EXPECT_EQ(same.baseline(0).devices(), 2u);
  EXPECT_THAT(same.baseline(0).settings(),
              ElementsAre("algorithm.flag=1", "device.cores=2", "algorithm.flag=2"));
  EXPECT_EQ(published(same), -7);
}

TEST(Suite, CasesStandOnTopOfTheRowAndItsBaselines) {
  const Suite suite =
      load_suite(file_with(
          kHead + "rows { id: 'r' metric: SPEEDUP published: 2 pick: LARGEST"
                  " cases { devices: 2 } cases { workload: 'dbrx' settings: 'device.cores=3' }"
                  " baseline { algorithm: 'old' settings: 'algorithm.x=2' } baseline { algorithm: "
                  "'older' } }"));
  const std::vector<Row> rows = cases_of(suite.rows(0));
  ASSERT_EQ(rows.size(), 2u);
  for (const Row& each : rows) {
    EXPECT_EQ(each.cases_size(), 0);
    ASSERT_EQ(each.baseline_size(), 2);
    EXPECT_EQ(each.algorithm(), "new");
    EXPECT_EQ(each.baseline(0).algorithm(), "old");
    EXPECT_EQ(each.baseline(1).algorithm(), "older");
  }
  EXPECT_EQ(rows[0].baseline(1).devices(), 2u);
  EXPECT_EQ(rows[1].devices(), 4u);
  EXPECT_EQ(rows[1].baseline(0).workload(), "dbrx");
  EXPECT_THAT(rows[1].baseline(0).settings(),
              ElementsAre("device.cores=2", "algorithm.x=2", "device.cores=3"));
  const Row plain = load_suite(file_with(kHead + "rows { id: 'r' published_us: 5 }")).rows(0);
  EXPECT_EQ(cases_of(plain).size(), 1u);
}

TEST(Suite, WhatIsWrongIsOneLine) {
  const std::string ratio = "rows { id: 'r' metric: RATIO ";
  const struct {
    std::string rows;
    const char* error;
  } cases[] = {
      {ratio + "published: 0.5 }", "rows.0.baseline: got 'nothing', expected the run to compare"},
      {"rows { id: 'r' published_us: 5 baseline { devices: 2 } }",
       "rows.0.baseline: got 'a baseline', expected none in a row of metric LATENCY"},
      {ratio + "published_us: 5 baseline { devices: 2 } }",
       "rows.0.published_us: got '5', expected published in a row of metric RATIO"},
      {"rows { id: 'r' published: 5 }",
       "rows.0.published: got '5', expected published_us in a row"},
      {ratio + "baseline { devices: 2 } }", "rows.0.published: got 'nothing', expected a figure"},
      {ratio + "published: 0 baseline { devices: 2 } }", "rows.0.published: got '0'"},
      {"rows { id: 'r' metric: REDUCTION_PERCENT published: 100 baseline { devices: 2 } }",
       "rows.0.published: got '100', expected a reduction of less than 100 %"},
      {ratio + "published: 1 baseline { tokens: 4 } }",
       "rows.0.baseline: got 'more than a run', expected no baseline"},
      {ratio + "published: 1 baseline { baseline { devices: 2 } } }", "rows.0.baseline: got 'more"},
      {"rows { id: 'r' published_us: 5 cases { devices: 2 } cases { devices: 3 } }",
       "rows.0.pick: got 'nothing', expected SMALLEST or LARGEST of several cases"},
      {"rows { id: 'r' published_us: 5 tokens: [1, 2] }",
       "rows.0.pick: got 'nothing', expected SMALLEST or LARGEST"},
      {"rows { id: 'r' published_us: 5 pick: LARGEST }", "rows.0.pick: got 'LARGEST', expected"},
      {"rows { id: 'r' published_us: 5 payload: 'none' }",
       "rows.0.payload: got 'none', expected full or control"},
      {"rows { id: 'r' role: EXTRA " + std::string("published_us: 5 }"),
       "rows.0.role: got 'EXTRA', expected PREDICTED, CALIBRATES or CONTRADICTS"},
      {"rows { id: 'r' role: CONTRADICTS published_us: 5 }",
       "rows.0.role: got 'CONTRADICTS', expected another row of this role"},
      {"rows { id: 'r' role: CONTRADICTS published_us: 5 }"
       "rows { id: 'q' role: CONTRADICTS published_us: 6 devices: 3 }",
       "rows.0.role: got 'CONTRADICTS'"},
      {"rows { id: 'r' role: CONTRADICTS published_us: 5 }"
       "rows { id: 'q' role: CONTRADICTS published_us: 5 }",
       "rows.0.role: got 'CONTRADICTS'"},
  };
  for (const auto& test : cases) EXPECT_THAT(error_of(test.rows), HasSubstr(test.error));
  EXPECT_EQ(error_of("rows { id: 'r' role: CONTRADICTS published_us: 5 source: 't' }"
                     "rows { id: 'q' role: CONTRADICTS published_us: 6 }"),
            "");
}

TEST(Suite, AnomaliesAreFewAndOfPredictedRows) {
  std::string rows;
  for (int i = 0; i < 8; ++i) rows += "rows { id: '" + std::to_string(i) + "' published_us: 5 } ";
  const std::string odd = "rows { id: 'odd' published_us: 6 anomaly: 'why' } ";
  EXPECT_THAT(error_of(rows + odd), HasSubstr("rows.8.anomaly: got 'why', expected at most one in "
                                              "ten rows declared so, of 9"));
  EXPECT_EQ(error_of(rows + odd + "rows { id: 'last' published_us: 5 }"), "");
  EXPECT_THAT(error_of(rows + "rows { id: 'last' published_us: 5 }" +
                       "rows { id: 'odd' published_us: 6 role: CALIBRATES anomaly: 'why' } "),
              HasSubstr("expected none in a row of role CALIBRATES"));
}

TEST(AssumedRanges, WhatIsWrongIsOneLine) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      load_ranges(file_with(text));
    } catch (const emu::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("topology: 'tiny'"), HasSubstr("ranges: got 'nothing'"));
  EXPECT_THAT(refusal("ranges { field: 'f' values: '1' reason: 'r' }"), HasSubstr("topology"));
  EXPECT_THAT(refusal("topology: 't' ranges { field: 'f' reason: 'r' }"),
              HasSubstr("ranges.0.values: got 'nothing', expected the ends of the range of f"));
  EXPECT_THAT(refusal("topology: 't' ranges { field: 'f' values: '1' }"), HasSubstr("reason"));
}

}  // namespace
}  // namespace orrery::moe
