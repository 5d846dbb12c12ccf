// orrery sweep as a user meets it: what it writes and prints, alone and under mpirun, and how it
// exits. Interrupted sweeps: mpi/sweep_kill_test.sh.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/sweep_folder.h"
#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class SweepCommand : public ::testing::Test {
 protected:
  /// A folder that is not there yet.
  static std::string fresh() {
    static int count = 0;
    const std::string path = (scratch_folder() / ("sweep" + std::to_string(++count))).string();
    std::filesystem::remove_all(path);
    return path;
  }
  static std::vector<std::string> lines_of(const std::string& folder) {
    std::vector<std::string> lines;
    std::istringstream text(read(folder + "/points.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  /// The lines without their host sections, sorted: they come in the order in which points finish.
  static std::vector<std::string> comparable(const std::string& folder) {
    static const std::regex host(R"(,"host":\{[^}]*\})");
    std::vector<std::string> lines;
    for (const std::string& line : lines_of(folder))
      lines.push_back(std::regex_replace(line, host, ""));
    std::sort(lines.begin(), lines.end());
    return lines;
  }
};

const std::string kTiny = "sweep --topology tiny --algorithm cann-bsp ";
// Points that differ in length, some that fail, one that hangs.
const std::string kMixed =
    "sweep --algorithm cann-bsp --topology tiny --vary tokens=2,16,64 --vary devices=2,4,9 "
    "--vary algorithm.sabotage=none,wrong-slot,drop-status --iterations 2 ";

TEST_F(SweepCommand, WritesALinePerPointAndPrintsATable) {
  const std::string folder = fresh();
  const Outcome outcome =
      run_program(kTiny + "--vary tokens=2,8 --vary fabric.packet_bytes=512,4096 --out " + folder);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"tokens  fabric.packet_bytes  dispatch.latency_us.max",
                           "combine.latency_us.max  verified\n", "4 points: 4 ok\n"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  const auto lines = lines_of(folder);
  ASSERT_EQ(lines.size(), 4u);
  const Json point = Json::parse(lines[1]);
  EXPECT_EQ(point.at("key"), "tokens=2 fabric.packet_bytes=4096");
  EXPECT_EQ(point.at("varied"), Json::parse(R"([{"name": "tokens", "value": "2"},
                                     {"name": "fabric.packet_bytes", "value": "4096"}])"));
  EXPECT_EQ(point.at("outcome"), "ok");
  EXPECT_EQ(point.at("error"), "");
  const Json sweep = Json::parse(read(folder + "/sweep.json"));
  EXPECT_EQ(sweep.at("fixed"), Json::parse(R"({"topology": "tiny", "algorithm": "cann-bsp"})"));
  EXPECT_EQ(sweep.at("vary").at(0), Json::parse(R"({"key": "tokens", "values": ["2", "8"]})"));
}

TEST_F(SweepCommand, APointIsTheRunThatItNames) {
  const std::string folder = fresh();
  ASSERT_EQ(
      run_program(kTiny + "--vary tokens=8 --vary seed=3 --vary align=true --out " + folder).code,
      0);
  const std::string json = (scratch_folder() / "run.json").string();
  ASSERT_EQ(run_program("run --topology tiny --algorithm cann-bsp --tokens 8 --seed 3 --align "
                        "--quiet --json " +
                        json)
                .code,
            0);
  Json run = Json::parse(read(json));
  Json point = Json::parse(lines_of(folder).at(0)).at("result");
  run.erase("host");
  point.erase("host");
  EXPECT_EQ(point, run);
}

// A point's result does not depend on processes, order, --processes-per-point or threads.
TEST_F(SweepCommand, LinesAreTheSameHoweverTheyAreMade) {
  const std::string alone = fresh();
  const Outcome outcome = run_program(kMixed + "--out " + alone);
  EXPECT_EQ(outcome.code, 1);
  const auto expected = comparable(alone);
  ASSERT_EQ(expected.size(), 27u);
  struct Way {
    int processes;
    const char* flags;
  };
  for (const Way& way :
       {Way{0, "--threads 2"}, Way{0, "--threads 5"}, Way{1, ""}, Way{2, ""}, Way{3, ""},
        Way{2, "--threads 2"}, Way{2, "--processes-per-point 2"}, Way{3, "--processes-per-point 2"},
        Way{4, "--processes-per-point 2"}, Way{3, "--processes-per-point 3 --transport mpi"}}) {
    const std::string folder = fresh();
    const Outcome other = run_program(kMixed + way.flags + " --out " + folder, way.processes);
    EXPECT_EQ(other.code, 1) << way.processes << way.flags;
    EXPECT_EQ(other.out, outcome.out) << way.processes << way.flags;
    EXPECT_EQ(comparable(folder), expected) << way.processes << way.flags << other.err;
  }
}

TEST_F(SweepCommand, AFailedPointIsRecordedAndDoesNotStopTheRest) {
  const std::string folder = fresh();
  const Outcome outcome = run_program(kMixed + "--out " + folder, 2);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("27 points: 6 ok, 6 not verified, 6 hang, 9 error"));
  EXPECT_THAT(outcome.out, HasSubstr("FAILED tokens=2 devices=9 algorithm.sabotage=none: error: "
                                     "--devices: got '9', expected at most the 4 devices"));
  std::map<std::string, int> outcomes;
  for (const std::string& line : lines_of(folder)) {
    const Json point = Json::parse(line);
    const std::string each = point.at("outcome");
    ++outcomes[each];
    EXPECT_EQ(point.contains("result"), each != "error") << line;
    EXPECT_EQ(point.at("error") == "", each == "ok") << line;
    if (each == "hang") {
      EXPECT_THAT(point.at("error").get<std::string>(), HasSubstr("wants"));
    }
  }
  EXPECT_EQ(outcomes.size(), 4u);
}

TEST_F(SweepCommand, ExitsWithTheGravestOfItsPoints) {
  const std::string hang = "algorithm.sabotage=none,drop-status";
  const std::string wrong = "algorithm.sabotage=none,wrong-slot,drop-status";
  EXPECT_EQ(run_program(kTiny + "--vary devices=4,9 --out " + fresh()).code, 2);
  EXPECT_EQ(run_program(kTiny + "--vary devices=4,9 --vary " + hang + " --out " + fresh()).code, 3);
  EXPECT_EQ(run_program(kTiny + "--vary devices=4,9 --vary " + wrong + " --out " + fresh()).code,
            1);
}

TEST_F(SweepCommand, ResumingRunsWhatIsMissing) {
  const std::string folder = fresh();
  const std::string sweep = kTiny + "--vary tokens=1:8 --vary seed=1:2 --quiet --out " + folder;
  ASSERT_EQ(run_program(sweep).code, 0);
  const auto lines = lines_of(folder);
  const auto expected = comparable(folder);
  ASSERT_EQ(lines.size(), 16u);
  // Every third line, and half of another.
  std::ofstream points(folder + "/points.jsonl", std::ios::trunc);
  for (std::size_t i = 0; i < lines.size(); i += 3) points << lines[i] << "\n";
  points << lines[1].substr(0, lines[1].size() / 2);
  points.close();
  const Outcome refused = run_program(sweep);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--resume"));
  EXPECT_EQ(run_program(sweep + " --resume", 2).code, 0);
  EXPECT_EQ(comparable(folder), expected);
  const auto kept = lines_of(folder);
  EXPECT_EQ(kept[2], lines[6]) << "a finished point was run again";
  // Nothing is left to do: nothing changes, and the table is there.
  const std::string before = read(folder + "/points.jsonl");
  const Outcome again =
      run_program(kTiny + "--vary tokens=1:8 --vary seed=1:2 --resume --out " + folder);
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("16 points: 16 ok"));
  EXPECT_EQ(read(folder + "/points.jsonl"), before);
}

TEST_F(SweepCommand, ResumingTakesFurtherValues) {
  const std::string folder = fresh();
  ASSERT_EQ(run_program(kTiny + "--vary tokens=2,4 --out " + folder).code, 0);
  EXPECT_EQ(run_program(kTiny + "--vary tokens=2,4,8 --resume --out " + folder).code, 0);
  EXPECT_EQ(lines_of(folder).size(), 3u);
}

TEST_F(SweepCommand, ResumingRefusesChangedInputs) {
  const std::string star = "fabric { star { devices: 4 link { latency_ns: 700 gb_per_s: 50 } } } ";
  const std::string file = scratch_file("changing.textproto", star + "device { cores: 4 }");
  const std::string folder = fresh();
  const std::string sweep =
      "sweep --algorithm ring --vary seed=1,2 --topology " + file + " --out " + folder;
  ASSERT_EQ(run_program(sweep).code, 0);
  scratch_file("changing.textproto", star + "device { cores: 2 }");
  const Outcome outcome = run_program(sweep + " --resume");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("changing.textproto has been changed since"));
}

TEST_F(SweepCommand, ResumingKeepsFailedPointsUnlessTheyAreRetried) {
  const std::string folder = fresh();
  const std::string sweep = kTiny + "--vary devices=4,9 --threads 1 --quiet --out " + folder;
  ASSERT_EQ(run_program(sweep).code, 2);
  const auto lines = lines_of(folder);
  EXPECT_EQ(run_program(sweep + " --resume").code, 2);
  EXPECT_EQ(lines_of(folder), lines);
  EXPECT_EQ(run_program(sweep + " --retry-errors").code, 2);
  EXPECT_EQ(lines_of(folder), lines);
}

TEST_F(SweepCommand, TakesAFileAndTheCommandLineGoesBeforeIt) {
  const std::string file = scratch_file("study.textproto", R"(
      description: "a study"
      topology: "tiny" algorithm: "cann-bsp" seed: 5
      vary { key: "tokens" values: "2,4" }
      vary { key: "placement" values: "packed;0,2,1,3" }
      metric: "combine.latency_us.p50")");
  const std::string folder = fresh();
  const Outcome outcome =
      run_program("sweep --file " + file + " --vary tokens=1:3 --align --out " + folder);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tokens  placement  combine.latency_us.p50\n"));
  const auto lines = lines_of(folder);
  ASSERT_EQ(lines.size(), 6u);
  const Json result = Json::parse(lines[5]).at("result");
  EXPECT_EQ(result.at("seed"), 5);
  EXPECT_EQ(result.at("tokens"), 3);
  EXPECT_EQ(result.at("align"), true);
  EXPECT_EQ(result.at("placement"), "0,2,1,3");
}

TEST_F(SweepCommand, VariesTopologyWorkloadAndAlgorithm) {
  const std::string folder = fresh();
  const Outcome outcome = run_program(
      "sweep --devices 4 --vary topology=tiny,star --vary workload=tiny --vary "
      "algorithm=ring,p2p --out " +
      folder);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(folder).size(), 4u);
  EXPECT_THAT(outcome.out, HasSubstr("put.latency_us.max  verified"));
}

TEST_F(SweepCommand, VariesLists) {
  const std::string folder = fresh();
  const Outcome outcome =
      run_program(kTiny + "--vary 'fabric.failed_planes=none;0;1;0,1' --out " + folder);
  EXPECT_EQ(outcome.code, 2) << outcome.err;  // the gravest: nothing is left of two planes
  std::map<std::string, Json> points;
  for (const std::string& line : lines_of(folder)) {
    const Json point = Json::parse(line);
    points[point.at("key")] = point;
  }
  ASSERT_EQ(points.size(), 4u);
  const auto result = [&](const std::string& planes) {
    return points.at("fabric.failed_planes=" + planes).at("result");
  };
  EXPECT_EQ(result("0")["operations"], result("1")["operations"]);
  EXPECT_NE(result("none")["digest"], result("0")["digest"]);
  EXPECT_EQ(points.at("fabric.failed_planes=0,1").at("outcome"), "error");
  EXPECT_THAT(run_program(kTiny + "--vary fabric.failed_planes=0,1 --out " + fresh()).out,
              HasSubstr("2 points: 2 ok"));
}

TEST_F(SweepCommand, WhatTheCheckerObjectsToIsNotVerified) {
  const std::string folder = fresh();
  const Outcome outcome = run_program(
      kTiny + "--check --vary fabric.order_scope=DEVICE_PAIR,CORE_PAIR --out " + folder);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("2 points: 1 ok, 1 not verified"));
  EXPECT_THAT(lines_of(folder).at(1), HasSubstr("check: accepted bytes that nothing proves"));
}

TEST_F(SweepCommand, SaysWhenAKeyChangedNothing) {
  const Outcome outcome = run_program(
      kTiny + "--vary tokens=2,4 --vary fabric.adversary_delay_ns=0,500 --out " + fresh());
  EXPECT_THAT(outcome.out, HasSubstr("note: fabric.adversary_delay_ns changed nothing in 2 of 2 "
                                     "comparisons"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tokens changed")));
}

TEST_F(SweepCommand, PrintsTheSpreadOverSeedsAndWritesCsv) {
  const std::string csv = (scratch_folder() / "sweep.csv").string();
  const Outcome outcome =
      run_program(kTiny +
                  "--vary tokens=4,8 --vary seed=1:5 --metric dispatch.latency_us.max "
                  "--metric counters.puts --csv " +
                  csv + " --out " + fresh());
  EXPECT_THAT(outcome.out, HasSubstr("over 5 seeds\ntokens  metric"));
  const std::string text = read(csv);
  EXPECT_THAT(text,
              ::testing::StartsWith(
                  "tokens,seed,outcome,dispatch.latency_us.max,counters.puts,error\n4,1,ok,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
}

TEST_F(SweepCommand, ZipPairs) {
  const std::string folder = fresh();
  ASSERT_EQ(run_program(kTiny + "--zip --vary tokens=2,4,8 --vary seed=1:3 --out " + folder).code,
            0);
  EXPECT_EQ(lines_of(folder).size(), 3u);
}

TEST_F(SweepCommand, OneSweepAtATimeInAFolder) {
  const std::string folder = fresh();
  const emu::ProcessGroup alone;
  SweepRequest request;
  request.add_axis("--vary", "tokens=2");
  const SweepFolder other(alone, folder, request, {}, {});
  const Outcome outcome = run_program(kTiny + "--vary tokens=2 --out " + folder, 2);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("a folder in which no other sweep is at work"));
}

TEST_F(SweepCommand, HelpNamesEveryFlag) {
  const Outcome outcome = run_program("sweep --help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* flag :
       {"--topology", "--workload", "--algorithm", "--devices", "--tokens", "--set", "--vary",
        "--zip", "--file", "--out", "--resume", "--retry-errors", "--processes-per-point",
        "--threads", "--metric", "--csv", "--quiet", "Exit code"}) {
    EXPECT_THAT(outcome.out, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace orrery::cli
