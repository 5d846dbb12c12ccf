#include "cli/suite_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "emu/text_config.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SuiteEntry entry(const std::string& row, double predicted) {
  SuiteEntry out;
  emu::parse_text("topology: 't' algorithm: 'a' devices: 2 operation: 'put' source: 's' " + row,
                  "test", out.row);
  out.prediction.value = predicted;
  return out;
}

moe::Suite suite_of(const std::vector<SuiteEntry>& entries) {
  moe::Suite suite;
  suite.set_name("n");
  for (const SuiteEntry& each : entries) *suite.add_rows() = each.row;
  return suite;
}

TEST(SuiteReport, TheErrorOfAReductionIsThatOfTheRatioBehindIt) {
  EXPECT_DOUBLE_EQ(entry("published_us: 50", 55).error_percent(), 100 * (55.0 / 50 - 1));
  EXPECT_DOUBLE_EQ(entry("metric: RATIO published: 0.5", 0.45).error_percent(),
                   100 * (0.45 / 0.5 - 1));
  // Half of the baseline's latency is left where 0.4 of it should be.
  EXPECT_DOUBLE_EQ(entry("metric: REDUCTION_PERCENT published: 60", 50).error_percent(),
                   100 * (50.0 / 40 - 1));
  EXPECT_DOUBLE_EQ(entry("metric: REDUCTION_PERCENT published: 0", 0).error_percent(), 0);
}

TEST(SuiteReport, TheMedianIsOfPredictedRowsAlone) {
  const std::vector<SuiteEntry> entries = {
      entry("id: 'a' published_us: 100", 110),
      entry("id: 'b' published_us: 100", 98),
      entry("id: 'c' role: CALIBRATES published_us: 100", 200),
      entry("id: 'd' role: CONTRADICTS published_us: 100", 300),
      entry("id: 'e' role: CONTRADICTS published_us: 90", 300),
      entry("id: 'f' role: EXTRA", 400),
      entry("id: 'g' published_us: 100 anomaly: 'odd'", 500)};
  EXPECT_NEAR(median_error_percent(entries), 6, 1e-9);
  const std::string table = to_table(suite_of(entries), entries);
  for (const char* part :
       {"latency                predicted us published us   error %",
        "calibrating (the machine's parameters were fitted to these)\n  c ",
        "contradicting (sources disagree about the same run: no part of the median)\n  d ",
        "compared with nothing\n  f ",
        "anomalous (declared before anything was predicted: no part of the median)\n  g ",
        "+400.00\n    odd\n", "median error of 2 predicted rows: 6.00 %, largest 10.00 %",
        "predicted: max over devices and one iteration, each operation started everywhere at once"})
    EXPECT_THAT(table, HasSubstr(part));
}

TEST(SuiteReport, RatiosAndReductionsHaveUnits) {
  std::vector<SuiteEntry> entries = {
      entry("id: 'r' metric: RATIO published: 0.773", 0.8),
      entry("id: 'p' metric: REDUCTION_PERCENT published: 52.4 pick: LARGEST align: false "
            "iterations: 3",
            47.812),
      entry("id: 'l' published_us: 50", 55)};
  entries[1].prediction.picked = "32 tokens";
  const std::string table = to_table(suite_of(entries), entries);
  for (const char* part :
       {"prediction                predicted    published   error %",
        "0.800        0.773     +3.49\n",
        "47.812 %     52.400 %     +9.64   -4.59 points   largest at 32 tokens\n",
        "55.000 us    50.000 us    +10.00\n", "3 iterations, devices drifting apart; or max over"})
    EXPECT_THAT(table, HasSubstr(part)) << table;
  const auto json = nlohmann::json::parse(to_json(suite_of(entries), entries));
  EXPECT_EQ(json["rows"][1]["predicted"], 47.812);
  EXPECT_EQ(json["rows"][1]["picked"], "32 tokens");
  EXPECT_EQ(json["rows"][1]["metric"], "REDUCTION_PERCENT");
  EXPECT_EQ(json["rows"][2]["predicted_us"], 55);
  EXPECT_EQ(json["rows"][2]["published_us"], 50);
}

TEST(SuiteReport, AnAnomalyStandsInOneSectionAlone) {
  const std::vector<SuiteEntry> entries = {entry("id: 'g' published_us: 100 anomaly: 'odd'", 500)};
  const std::string table = to_table(suite_of(entries), entries);
  EXPECT_THAT(table, Not(HasSubstr("\npredicted\n")));
  EXPECT_THAT(table, Not(HasSubstr("median error")));
  const auto json = nlohmann::json::parse(to_json(suite_of(entries), entries));
  EXPECT_EQ(json["rows"][0]["anomaly"], "odd");
}

TEST(SuiteReport, ShowsHowFarAPredictionMoves) {
  std::vector<SuiteEntry> entries = {entry("id: 'l' published_us: 50", 55)};
  EXPECT_THAT(to_table(suite_of(entries), entries), Not(HasSubstr("assumed ranges")));
  entries[0].spread = Spread{
      40, 60, {{"device.b=9", 40, ""}, {"device.a=1", 60, ""}, {"device.c=0", 55, "a hang"}}, 7};
  const std::string table = to_table(suite_of(entries), entries);
  EXPECT_THAT(table, HasSubstr("over all assumed ranges (7 settings, one at a time)\n"));
  EXPECT_THAT(table,
              HasSubstr("40.000 to 60.000   most by 40.000 device.b=9, 60.000 device.a=1\n"));
  EXPECT_THAT(table,
              HasSubstr("without 1 of 7 settings that did not run, e.g. device.c=0: a hang"));
  const auto json = nlohmann::json::parse(to_json(suite_of(entries), entries));
  EXPECT_EQ(json["rows"][0]["spread"]["most"], 60);
  EXPECT_EQ(json["rows"][0]["spread"]["moves"][2]["failed"], "a hang");
}

}  // namespace
}  // namespace orrery::cli
