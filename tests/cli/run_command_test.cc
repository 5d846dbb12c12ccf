// orrery run as a user meets it: what it prints, what it writes, how it exits (design section 10).
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = "run --topology tiny --algorithm cann-bsp ";

Json result_of(const std::string& arguments, int processes = 0) {
  const std::string path = (scratch_folder() / "result.json").string();
  const Outcome outcome = run_program(arguments + " --json " + path, processes);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Json::parse(std::ifstream(path), nullptr, false);
}

TEST(RunCommand, PrintsLatenciesBreakdownCountersAndDigests) {
  const Outcome outcome = run_program(kTiny + "--iterations 2");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"cann-bsp on 4 devices of tiny", "latency us", "dispatch", "experts",
                           "combine", "critical path of dispatch", "mean core time us",
                           "counters:", "busiest link:", "verified: true", "digest", "outputs",
                           "host: 1 process, local"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(RunCommand, AnIterationEndsWithTheOperationThatIsAskedFor) {
  const Json whole = result_of(kTiny + "--iterations 3 --align");
  const Json first = result_of(kTiny + "--iterations 3 --align --operation dispatch");
  ASSERT_EQ(whole.at("operations").size(), 3u);
  ASSERT_EQ(first.at("operations").size(), 1u);
  EXPECT_EQ(first.at("operations")[0].at("name"), "dispatch");
  EXPECT_EQ(first.at("operation"), "dispatch");
  EXPECT_EQ(first.at("verified"), true);
}

// With late starts, an operation that waits for its peers takes longer where it began with them
// the less; by iterations, the first operation begins as if all were aligned.
TEST(RunCommand, AlignedIterationsBeginTogetherAndTheirOperationsDoNot) {
  const std::string run = kTiny + "--iterations 3 --set workload.jitter_ns=20000 ";
  const Json drifting = result_of(run);
  const Json iterations = result_of(run + "--align-iterations");
  const Json operations = result_of(run + "--align");
  const auto latency = [](const Json& result, std::size_t operation, const char* which) {
    return result.at("operations")[operation].at("latency_us").at(which).get<double>();
  };
  EXPECT_EQ(iterations.at("align_iterations"), true);
  EXPECT_EQ(iterations.at("align"), false);
  EXPECT_EQ(operations.at("align_iterations"), false);
  EXPECT_DOUBLE_EQ(latency(iterations, 0, "mean"), latency(operations, 0, "mean"));
  EXPECT_NE(latency(iterations, 0, "mean"), latency(drifting, 0, "mean"));
  EXPECT_NE(latency(iterations, 2, "mean"), latency(operations, 2, "mean"));
}

TEST(RunCommand, QuietPrintsNothing) {
  const Outcome outcome = run_program(kTiny + "--quiet");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
}

TEST(RunCommand, JsonHasEveryFieldWithDefaultsAndNumbersAsNumbers) {
  const Json result =
      result_of(kTiny + "--devices 4 --seed 7 --iterations 2 --set fabric.packet_bytes=8192");
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result.at("topology"), "tiny");
  EXPECT_EQ(result.at("workload"), "tiny");
  EXPECT_EQ(result.at("algorithm"), "cann-bsp");
  EXPECT_EQ(result.at("devices"), 4);
  EXPECT_EQ(result.at("tokens"), 4);
  EXPECT_EQ(result.at("seed"), 7);
  EXPECT_EQ(result.at("iterations"), 2);
  EXPECT_EQ(result.at("placement"), "packed");
  EXPECT_EQ(result.at("align"), false);
  EXPECT_EQ(result.at("settings"), Json({{"fabric.packet_bytes", "8192"}}));
  EXPECT_EQ(result.at("verified"), true);
  EXPECT_EQ(result.at("failures"), Json::array());
  EXPECT_TRUE(result.at("notes").is_array());
  EXPECT_TRUE(result.at("busiest_links").is_array());
  EXPECT_TRUE(result.at("virtual_time_us").is_number());
  EXPECT_TRUE(result.at("digest").is_string());
  EXPECT_TRUE(result.at("output_digest").is_string());

  ASSERT_EQ(result.at("operations").size(), 3u);
  EXPECT_EQ(result["operations"][0].at("name"), "dispatch");
  for (const Json& operation : result["operations"]) {
    for (const char* field : {"min", "mean", "p50", "p99", "max"}) {
      EXPECT_GT(operation.at("latency_us").at(field).get<double>(), 0) << field;
    }
    double sum = 0;
    for (const Json& part : operation.at("breakdown_us")) sum += part.get<double>();
    EXPECT_NEAR(sum, operation["latency_us"]["max"].get<double>(), 1e-6) << operation["name"];
    EXPECT_TRUE(operation.at("core_time_us").is_object());
    EXPECT_TRUE(operation.at("bytes_useful").is_number());
    EXPECT_TRUE(operation.at("bytes_on_wire").is_number());
    EXPECT_TRUE(operation.at("slowest_device").is_number_unsigned());
  }
  EXPECT_EQ(result["operations"][1]["bytes_useful"], 0) << "default values are printed";

  ASSERT_FALSE(result.at("counters").empty());
  for (const auto& [name, value] : result["counters"].items())
    EXPECT_TRUE(value.is_number()) << name;
  EXPECT_GT(result["counters"].at("puts").get<double>(), 0);

  const Json& host = result.at("host");
  for (const char* field :
       {"processes", "threads", "wall_seconds", "events", "events_per_second", "peak_rss_mib"}) {
    EXPECT_TRUE(host.at(field).is_number()) << field;
  }
  EXPECT_EQ(host.at("transport"), "local");
}

TEST(RunCommand, JsonIsTheSameUnderMpirunButForTheHost) {
  const std::string arguments = kTiny + "--tokens 9 --iterations 3 --seed 5";
  Json alone = result_of(arguments);
  Json three = result_of(arguments, 3);
  ASSERT_TRUE(alone.is_object() && three.is_object());
  EXPECT_EQ(three["host"]["processes"], 3);
  alone.erase("host");
  three.erase("host");
  EXPECT_EQ(alone.dump(), three.dump());
}

TEST(RunCommand, JsonReplacesAFileAndLeavesNothingBeside) {
  const std::string path = scratch_file("old.json", "old");
  EXPECT_EQ(run_program(kTiny + "--quiet --json " + path).code, 0);
  EXPECT_TRUE(Json::parse(std::ifstream(path), nullptr, false).is_object());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(RunCommand, JsonGoesIntoAPipeToo) {
  const Outcome outcome = run_program(kTiny + "--quiet --json /dev/stdout");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(Json::parse(outcome.out, nullptr, false).value("verified", false), true);
}

TEST(RunCommand, BadInputLeavesAnOldResultAlone) {
  const std::string path = scratch_file("kept.json", "kept");
  EXPECT_EQ(run_program(kTiny + "--set algorithm.cores=99 --json " + path).code, 2);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "kept");
}

TEST(RunCommand, AWrongResultIsExitCode1) {
  for (const int processes : {0, 2}) {
    const Outcome outcome = run_program(kTiny + "--set algorithm.sabotage=wrong-slot", processes);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out, HasSubstr("verified: false"));
    EXPECT_THAT(outcome.out, HasSubstr("FAILED: "));
  }
  const Outcome quiet = run_program(kTiny + "--quiet --set algorithm.sabotage=wrong-slot");
  EXPECT_EQ(quiet.code, 1);
  EXPECT_EQ(quiet.out, "");
  EXPECT_THAT(quiet.err, HasSubstr("FAILED: "));
}

TEST(RunCommand, AHangIsExitCode3AndOneReport) {
  for (const int processes : {0, 3}) {
    const Outcome outcome = run_program(kTiny + "--set algorithm.sabotage=drop-status", processes);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, ::testing::StartsWith("hang: no event is left"));
    EXPECT_THAT(outcome.err, HasSubstr("status of expert 7"));
    EXPECT_EQ(outcome.err.find("hang:"), outcome.err.rfind("hang:"));
  }
}

TEST(RunCommand, TheTimeLimitIsExitCode3) {
  const Outcome outcome = run_program(kTiny + "--max-virtual-ms 0.003");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("virtual time passed 3.000 us"));
}

TEST(RunCommand, TokensOfTheCommandLineReplaceCountsPerDevice) {
  const std::string workload = scratch_file(
      "counts.textproto",
      "hidden: 64 expert_intermediate: 32 experts: 8 top_k: 2 tokens_per_device: [0, 1, 2, 3]\n");
  EXPECT_EQ(result_of(kTiny + "--workload " + workload).at("tokens"), 3);
  EXPECT_EQ(result_of(kTiny + "--workload " + workload + " --tokens 5").at("tokens"), 5);
  EXPECT_EQ(result_of(kTiny + "--set workload.tokens=6").at("tokens"), 6);
}

TEST(RunCommand, HelpNamesEveryFlagAndDefault) {
  const Outcome outcome = run_program("run --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* flag : {"--topology",      "--workload",       "=tiny",
                           "--algorithm",     "--devices",        "--placement",
                           "=packed",         "--tokens",         "--set",
                           "--iterations",    "--align",          "--seed",
                           "--adversary",     "--max-virtual-ms", "--transport",
                           "=auto",           "--threads",        "--json",
                           "--quiet",         "--trace",          "--trace-devices",
                           "--trace-from-us", "--trace-to-us",    "--trace-events",
                           "--timeline",      "--check",          "--align-iterations"}) {
    EXPECT_THAT(outcome.out, HasSubstr(flag));
  }
}

TEST(RunCommand, CheckSaysThatARunIsClean) {
  const Outcome outcome = run_program(kTiny + "--iterations 2 --check");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\ncheck: clean \\([0-9]+ accesses\\)\n"));
  EXPECT_THAT(run_program(kTiny).out, ::testing::Not(HasSubstr("check:")));
}

TEST(RunCommand, FindingsOfTheCheckAreExitCode1) {
  for (const int processes : {0, 2}) {
    for (const char* quiet : {"", " --quiet"}) {
      const Outcome outcome =
          run_program(kTiny + "--check --set fabric.order_scope=CORE_PAIR" + quiet, processes);
      EXPECT_EQ(outcome.code, 1);
      const std::string& text = *quiet != 0 ? outcome.err : outcome.out;
      EXPECT_THAT(text, HasSubstr("check: accepted bytes that nothing proves complete: accept by "
                                  "device "));
      if (*quiet == 0) {
        EXPECT_THAT(text, HasSubstr("\nverified: true"));
      }
    }
  }
}

TEST(RunCommand, CheckStandsInTheResult) {
  EXPECT_FALSE(result_of(kTiny).contains("check"));
  const auto check = result_of(kTiny + "--check").at("check");
  EXPECT_GT(check.at("accesses"), 100);
  EXPECT_TRUE(check.at("findings").empty());
}

TEST(RunCommand, HelpUnderMpirunIsPrintedOnce) {
  const Outcome outcome = run_program("run --help", 3);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find("--topology"), outcome.out.rfind("--topology"));
}

TEST(RunCommand, WorksWithMoreProcessesThanDevices) {
  EXPECT_EQ(run_program(kTiny + "--quiet", 5).code, 0);
}

}  // namespace
}  // namespace orrery::cli
