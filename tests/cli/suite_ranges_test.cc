#include "cli/suite_ranges.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "cli/commands.h"
#include "devices/machine.h"
#include "emu/errors.h"
#include "moe/suite.h"
#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;

std::string suite_file() {
  return scratch_file(
      "ranged.suite.textproto",
      "name: 's' timed: 't' byte_formula: 'b' rows { id: 'r' published_us: 5 "
      "topology: 'tiny' algorithm: 'ring' devices: 4 operation: 'put' source: 's' }");
}

std::string ranges_file(const std::string& ranges, const std::string& topology = "tiny") {
  return scratch_file("some.ranges.textproto", "topology: '" + topology + "' " + ranges);
}

const std::string kLaunch =
    "ranges { field: 'device.launch_ns' values: '500' values: '3000' reason: 'r' } ";

TEST(SuiteRanges, APredictionMovesByWhatEachSettingDoes) {
  const moe::Suite suite = moe::load_suite(suite_file());
  const emu::ProcessGroup alone;
  SuiteRuns runs(alone, "auto", "test");
  const SuiteRanges ranges(
      ranges_file(kLaunch +
                  "ranges { field: 'device.issue_ns' values: '200' reason: 'r' }"
                  "ranges { field: 'device.matrix_efficiency' values: '0.3' reason: 'r' }"));
  ranges.check(runs, suite);
  const double value = runs.predict(suite.rows(0)).value;
  const Spread spread = ranges.spread(runs, suite.rows(0), value);
  EXPECT_EQ(spread.runs, 4u);
  EXPECT_NEAR(spread.least, value - 0.5, 1e-9);  // 1000 ns of launch become 500
  EXPECT_NEAR(spread.most, value + 2, 1e-9);     // … or 3000
  ASSERT_EQ(spread.moves.size(), 3u);            // a ring multiplies no matrices
  EXPECT_EQ(spread.moves[0].setting, "device.launch_ns=3000");
  EXPECT_EQ(spread.moves[1].setting, "device.launch_ns=500");
  EXPECT_EQ(spread.moves[2].setting, "device.issue_ns=200");
}

TEST(SuiteRanges, WhatDoesNotRunIsTold) {
  const moe::Suite suite = moe::load_suite(suite_file());
  const emu::ProcessGroup alone;
  SuiteRuns runs(alone, "auto", "test");
  const SuiteRanges ranges(ranges_file(
      "ranges { field: 'fabric.failed_planes' values: '0,1' values: '0' reason: 'r' }"));
  const Spread spread = ranges.spread(runs, suite.rows(0), runs.predict(suite.rows(0)).value);
  ASSERT_GE(spread.moves.size(), 1u);
  EXPECT_EQ(spread.moves.back().setting, "fabric.failed_planes=0,1");
  EXPECT_THAT(spread.moves.back().failed, HasSubstr("6 of 6 pairs are cut off"));
}

TEST(SuiteRanges, TheCommandPrintsAndRefusesThem) {
  const std::string validate = "validate --suite " + suite_file() + " --ranges ";
  const Outcome fine = run_program(validate + ranges_file(kLaunch));
  EXPECT_EQ(fine.code, kOk) << fine.err;
  EXPECT_THAT(fine.out, HasSubstr("over all assumed ranges (2 settings, one at a time)"));
  EXPECT_THAT(fine.out, HasSubstr("device.launch_ns=3000, "));
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, kUsage) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refusal(validate + "cm348"), HasSubstr("--ranges: got 'cm348'"));
  EXPECT_THAT(refusal(validate + "cm384"), HasSubstr("got 'cm384', expected that of row r, tiny"));
  EXPECT_THAT(refusal(validate +
                      ranges_file("ranges { field: 'device.lanch_ns' values: '1' reason: 'r' }")),
              ::testing::AllOf(HasSubstr("some.ranges.textproto: "),
                               HasSubstr("row r: --set: device.lanch_ns")));
}

// --- The shipped files ---

std::string shipped(const std::string& path) { return std::string(ORRERY_SOURCE) + "/" + path; }

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ShippedRanges, AreSettingsOfTheirTopology) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped("ranges"))) {
    if (entry.path().extension() != ".textproto") continue;
    ++files;
    const moe::AssumedRanges ranges = moe::load_ranges(entry.path());
    EXPECT_EQ(ranges.topology(), entry.path().stem());
    const std::string topology = shipped("topologies/" + ranges.topology() + ".textproto");
    const devices::Machine shipped = devices::load_machine(topology, {});
    for (const moe::AssumedRange& range : ranges.ranges()) {
      for (const std::string& value : range.values()) {
        const devices::Machine changed = devices::load_machine(topology, {{range.field(), value}});
        EXPECT_NE(changed.SerializeAsString(), shipped.SerializeAsString())
            << range.field() << "=" << value << " is the shipped value";
      }
    }
  }
  EXPECT_GE(files, 1);
}

// "poll_ns: 20  # assumed, 10 to 100" there is 10 and 100 here, and 20 between them.
TEST(ShippedRanges, AreThoseThatTheTopologySays) {
  const std::regex assumed(R"re(\n  (\w+): ([0-9.]+) +# assumed, ([0-9.]+) to ([0-9.]+)[^0-9.])re");
  for (const char* name : {"cm384", "h100-ib", "h800-ib", "perlmutter"}) {
    const moe::AssumedRanges ranges =
        moe::load_ranges(shipped("ranges/" + std::string(name) + ".textproto"));
    const std::string text = text_of(shipped("topologies/" + std::string(name) + ".textproto"));
    int found = 0;
    for (std::sregex_iterator match(text.begin(), text.end(), assumed), end; match != end;
         ++match) {
      const std::string field = "device." + (*match)[1].str();
      const auto range = std::find_if(ranges.ranges().begin(), ranges.ranges().end(),
                                      [&](const auto& each) { return each.field() == field; });
      ASSERT_NE(range, ranges.ranges().end()) << field;
      ++found;
      EXPECT_THAT(range->values(), ::testing::ElementsAre((*match)[3].str(), (*match)[4].str()))
          << field;
      EXPECT_LE(std::stod((*match)[3]), std::stod((*match)[2])) << field;
      EXPECT_GE(std::stod((*match)[4]), std::stod((*match)[2])) << field;
    }
    EXPECT_GE(found, 4) << "the comments of " << name << " look different now";
  }
}

}  // namespace
}  // namespace orrery::cli
