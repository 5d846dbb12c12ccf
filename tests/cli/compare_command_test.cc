// orrery compare as a user meets it, on results that orrery itself wrote just before.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::string kTiny = "run --topology tiny --algorithm cann-bsp ";
const std::string kNode = "run --topology cm384 --devices 16 --algorithm cann-bsp ";

// Runs and keeps the result as `name`; returns its path.
std::string result(const std::string& name, const std::string& arguments, int code = 0) {
  const std::string path = (scratch_folder() / name).string();
  const Outcome outcome = run_program(arguments + " --quiet --json " + path);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  return path;
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The output with the scratch folder as DIR.
std::string compared(const std::string& files, int processes = 0) {
  const Outcome outcome = run_program("compare " + files, processes);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::string out = outcome.out;
  const std::string folder = scratch_folder().string();
  for (std::size_t at; (at = out.find(folder)) != std::string::npos;) {
    out.replace(at, folder.size(), "DIR");
  }
  return out;
}

void expect_golden(const std::string& out, const std::string& name) {
  const auto path = std::filesystem::path(ORRERY_SOURCE) / "tests" / "cli" / "golden" / name;
  EXPECT_EQ(out, read(path)) << path;
}

// A line of points.jsonl around the result at `path`.
std::string point(const std::string& key, const std::string& name, const std::string& value,
                  const std::string& path) {
  const Json json = {{"key", key},
                     {"varied", {{{"name", name}, {"value", value}}}},
                     {"outcome", "ok"},
                     {"error", ""},
                     {"result", Json::parse(std::ifstream(path))}};
  return json.dump() + "\n";
}

TEST(CompareCommand, TwoRunsOfTiny) {
  const std::string a = result("a.json", kTiny);
  const std::string b = result("b.json", kTiny + "--set fabric.clos.uplink.latency_ns=250");
  const std::string out = compared(a + " " + b);
  expect_golden(out, "compare-tiny.txt");
  EXPECT_EQ(compared(a + " " + b, 3), out) << "printed once under mpirun";
}

TEST(CompareCommand, TwoRunsOfANodeOfCm384) {
  expect_golden(compared(result("a.json", kNode) + " " +
                         result("b.json", kNode + "--tokens 9 --set device.cores=24")),
                "compare-cm384.txt");
}

TEST(CompareCommand, ASettingThatCouldNotAndOneThatCould) {
  expect_golden(compared(result("a.json", kTiny) + " " +
                         result("b.json", kTiny + "--set fabric.adversary_delay_ns=5") + " " +
                         result("c.json", kTiny + "--set fabric.atomic_block_bytes=512")),
                "compare-nothing.txt");
}

TEST(CompareCommand, TheSameFileTwice) {
  const std::string a = result("a.json", kTiny);
  const std::string out = compared(a + " " + a);
  EXPECT_THAT(out, HasSubstr("A and B have the same inputs and the same digests\n"));
  EXPECT_THAT(out, HasSubstr("event digests are equal, output digests are equal\n"));
}

TEST(CompareCommand, JsonHasTheNumbersOfTheTable) {
  const std::string a = result("a.json", kTiny);
  const std::string b = result("b.json", kTiny + "--set fabric.clos.uplink.latency_ns=250");
  const std::string path = (scratch_folder() / "comparison.json").string();
  EXPECT_EQ(run_program("compare " + a + " " + b + " --json " + path).code, 0);
  const Json json = Json::parse(std::ifstream(path));
  EXPECT_EQ(json["compared"][0]["label"], "A");
  EXPECT_EQ(json["compared"][0]["file"], a);
  EXPECT_EQ(json["compared"][1]["verified"], true);
  EXPECT_EQ(json["inputs"][0]["input"], "fabric.clos.uplink.latency_ns");
  EXPECT_EQ(json["inputs"][0]["values"], Json({"not set (500)", "250"}));
  const Json& pair = json["pairs"][0];
  EXPECT_EQ(pair["same_digest"], false);
  EXPECT_EQ(pair["same_output_digest"], true);
  ASSERT_EQ(pair["operations"].size(), 3u);
  const Json first = Json::parse(std::ifstream(a));
  const Json other = Json::parse(std::ifstream(b));
  for (int i = 0; i < 3; ++i) {
    const Json& operation = pair["operations"][i];
    const double was = first["operations"][i]["latency_us"]["max"];
    const double is = other["operations"][i]["latency_us"]["max"];
    EXPECT_EQ(operation["latency_us"][4]["first"], was);
    EXPECT_EQ(operation["latency_us"][4]["other"], is);
    EXPECT_DOUBLE_EQ(operation["latency_us"][4]["ratio"].get<double>(), is / was);
    double sum = 0;
    for (const Json& part : operation["breakdown_us"]) sum += part["change_us"].get<double>();
    EXPECT_NEAR(sum, is - was, 1e-7) << "0.1 ps";
  }
  EXPECT_EQ(pair["counters"][0]["name"], "polls");
}

TEST(CompareCommand, AnUnverifiedResultIsExitCode1) {
  const std::string a = result("a.json", kTiny);
  const std::string b = result("b.json", kTiny + "--set algorithm.sabotage=wrong-slot", 1);
  for (const int processes : {0, 2}) {
    const Outcome outcome = run_program("compare " + a + " " + b, processes);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, HasSubstr("\nNOT VERIFIED: B: device "));
    EXPECT_THAT(outcome.out, HasSubstr("\nlatency us "));
  }
}

TEST(CompareCommand, OneSweepByItsKeys) {
  const std::string key = "fabric.clos.uplink.latency_ns";
  const std::string a = result("a.json", kTiny + "--set " + key + "=500");
  const std::string b = result("b.json", kTiny + "--set " + key + "=250");
  std::filesystem::create_directories(scratch_folder() / "sweep");
  scratch_file("sweep/points.jsonl", point("1", key, "250", b) + point("2", key, "500", a));
  scratch_file("sweep/sweep.json",
               "{\"vary\": [{\"key\": \"" + key + "\", \"values\": [\"500\", \"250\"]}]}");
  const std::string out = compared((scratch_folder() / "sweep").string());
  EXPECT_THAT(out, HasSubstr("A  DIR/sweep/points.jsonl: 2 points, 2 ok\n"));
  EXPECT_THAT(out, HasSubstr("fixed: topology=tiny workload=tiny algorithm=cann-bsp"));
  EXPECT_THAT(out, HasSubstr("\n" + key + ": max against " + key + "=500, "));
  EXPECT_THAT(out, HasSubstr("\n  250               1    0.9108   (0.911, 0.911)    1.0000"));
}

TEST(CompareCommand, TwoSweepsPointByPoint) {
  const std::string a = result("a.json", kTiny + "--tokens 4");
  const std::string b = result("b.json", kTiny + "--tokens 8");
  const std::string c = result("c.json", kTiny + "--tokens 4 --set device.poll_ns=40");
  const std::string d = result("d.json", kTiny + "--tokens 8 --set device.poll_ns=40");
  const std::string first =
      scratch_file("first.jsonl", point("1", "tokens", "8", b) + point("2", "tokens", "4", a));
  const std::string other = scratch_file(
      "other.jsonl", point("1", "tokens", "4", c) + point("2", "tokens", "8", d) + "{\"key\": \"t");
  const std::string out = compared(first + " " + other);
  EXPECT_THAT(out, HasSubstr("warning: DIR/other.jsonl:3: a torn last line is ignored\n"));
  EXPECT_THAT(out, HasSubstr("\nA and B: 2 points in both\n"
                             "A and B differ in one input alone: device.poll_ns\n"));
  EXPECT_THAT(out, HasSubstr("\nmax of dispatch, us\n  tokens            A            B       B/A\n"
                             "  4             5.828 "));
}

TEST(CompareCommand, APointThatIsNotOkIsExitCode1) {
  const std::string a = result("a.json", kTiny);
  const std::string sweep = scratch_file(
      "failed.jsonl", point("1", "tokens", "4", a) +
                          R"({"key": "2", "varied": [{"name": "tokens", "value": "8"}],)"
                          R"( "outcome": "hang", "error": "hang: no event is left"})" +
                          "\n");
  const Outcome outcome = run_program("compare " + sweep);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("not ok in A: tokens=8: hang: hang: no event is left\n"));
}

TEST(CompareCommand, HelpSaysWhatTheExitCodesMean) {
  const Outcome outcome = run_program("compare --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Exit code 1: a result is not verified"));
  EXPECT_THAT(outcome.out, HasSubstr("--json"));
}

}  // namespace
}  // namespace orrery::cli
