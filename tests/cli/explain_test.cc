// orrery run --explain in words: a golden text on a machine that can be followed by hand, and what
// must hold for every other.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = "run --topology tiny --algorithm cann-bsp --explain ";

// Lines of what a run prints, less the one about the host.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("host:")) lines.push_back(line);
  }
  return lines;
}

std::string explanation_of(const std::string& arguments) {
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::size_t host = outcome.out.find("\nhost:");
  return outcome.out.substr(outcome.out.find('\n', host + 1) + 1);
}

// 14336 B at 10 B/ns: 1433.6 ns in the pipe and 409.6 for the last packet on the wire; four links
// of 500 ns; polls of 20 ns.
TEST(Explain, PointToPointWordByWord) {
  EXPECT_EQ(
      explanation_of("run --topology tiny --algorithm p2p --explain"),
      "\n"
      "put: the 4.980 us of device 3 in iteration 0, step by step (us since it began, us that it "
      "took)\n"
      "      0.000    +1.000  device 0 launches the kernel\n"
      "      1.000    +3.980  core 0 of device 0 puts 14336 B to device 3: 0.100 us to issue, "
      "1.843 "
      "us to serialise, 2.000 us on the wire over 3 switches (device-L1, L1-L2); core 0 of device "
      "3 "
      "had waited for it since 1.000 and saw it in its next poll 0.037 us later\n"
      "  what would shorten put most, of 4.980 us\n"
      "  without                            on path  estimate us        %    re-run us        %   "
      "as "
      "set by\n"
      "  kernel launch                        1.000        1.000     20.1        1.000     20.1   "
      "device.launch_ns=0\n"
      "  latency of device-L1 links           1.000        0.998     20.0        1.000     20.1   "
      "links of 1 ns\n"
      "  latency of L1-L2 links               1.000        0.998     20.0        1.000     20.1   "
      "links of 1 ns\n");
}

// The steps of each operation, one after the other, take its latency; no more than 25 lines.
TEST(Explain, StepsAddUp) {
  for (const char* arguments :
       {"--topology tiny --algorithm cann-bsp --iterations 2",
        "--topology star --devices 8 --algorithm alltoall",
        "--topology ascend950-mesh8 --algorithm ring",
        "--topology cm384 --devices 4 --workload qwen3-30b-a3b --algorithm cann-bsp --tokens 4"}) {
    const std::string text = explanation_of(std::string("run --explain ") + arguments);
    std::size_t operations = 0;
    double latency = 0;
    double sum = 0;
    std::size_t steps = 0;
    for (const std::string& line : lines_of(text)) {
      const std::size_t the = line.find(": the ");
      if (the != std::string::npos && line.find("step by step") != std::string::npos) {
        latency = std::stod(line.substr(the + 6));
        sum = 0;
        steps = 0;
        ++operations;
      } else if (line.starts_with("  what would shorten")) {
        EXPECT_NEAR(sum, latency, 0.0006 * static_cast<double>(steps + 1)) << arguments;
        EXPECT_GE(steps, 1u);
        EXPECT_LE(steps, 25u) << arguments;
      } else if (line.find("shorter steps in between are left out: ") != std::string::npos) {
        sum += std::stod(line.substr(line.find("out: ") + 5));
        ++steps;
      } else if (line.size() > 22 && line.starts_with("  ") && line.find('+') < 20) {
        sum += std::stod(line.substr(line.find('+')));
        ++steps;
      }
    }
    EXPECT_GE(operations, 1u) << text;
  }
}

TEST(Explain, RepeatedStepsAreCounted) {
  const std::string text = explanation_of(kTiny);
  EXPECT_THAT(text, HasSubstr("x2 core 3 of device 2, in all: "));
  EXPECT_THAT(text, HasSubstr("releases its core barrier, at which core"));
  EXPECT_THAT(text, HasSubstr("device 1 had not begun yet"));
}

TEST(Explain, TheSameTextForAnyNumberOfProcesses) {
  const std::vector<std::string> alone = lines_of(run_program(kTiny + "--iterations 2").out);
  for (const int processes : {2, 3}) {
    const Outcome outcome = run_program(kTiny + "--iterations 2", processes);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(lines_of(outcome.out), alone) << processes;
  }
  EXPECT_EQ(lines_of(run_program(kTiny + "--iterations 2 --threads 2").out), alone);
}

TEST(Explain, JsonHasASectionWhenAskedFor) {
  const auto path = scratch_folder() / "explained.json";
  ASSERT_EQ(run_program(kTiny + "--quiet --json " + path.string()).code, 0);
  const Json explained = Json::parse(std::ifstream(path));
  ASSERT_EQ(explained.at("explanations").size(), 9u);
  for (const Json& each : explained["explanations"]) {
    EXPECT_TRUE(each.at("operation").is_string());
    EXPECT_NE(each.at("item"), "");
    EXPECT_NE(each.at("removed_by"), "");
    for (const char* field : {"latency_us", "share_us", "estimate_us", "rerun_us"}) {
      EXPECT_TRUE(each.at(field).is_number()) << field;
    }
    EXPECT_EQ(each.at("rerun_verified"), true);
  }
  ASSERT_EQ(
      run_program("run --topology tiny --algorithm cann-bsp --quiet --json " + path.string()).code,
      0);
  Json plain = Json::parse(std::ifstream(path));
  EXPECT_FALSE(plain.contains("explanations"));
  Json rest = explained;
  rest.erase("explanations");
  rest.erase("host");
  plain.erase("host");
  EXPECT_EQ(rest, plain);
}

TEST(Explain, SaysWhyNothingIsRemoved) {
  EXPECT_THAT(explanation_of(kTiny + "--adversary"),
              HasSubstr("With --adversary no cost is to blame"));
  const Outcome wrong = run_program(kTiny + "--set algorithm.sabotage=wrong-slot");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("The run is not verified"));
  const Outcome hang = run_program(kTiny + "--set algorithm.sabotage=drop-status");
  EXPECT_EQ(hang.code, 3);
  EXPECT_THAT(hang.out, Not(HasSubstr("what would shorten")));
}

}  // namespace
}  // namespace orrery::cli
