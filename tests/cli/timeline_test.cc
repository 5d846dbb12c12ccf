// orrery run --timeline: the picture of a small run, letter by letter, and what becomes of a large
// one.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Timeline : public testing::Test {
 protected:
  void SetUp() override { setenv("COLUMNS", "100", 1); }
  void TearDown() override { unsetenv("COLUMNS"); }
};

Outcome drawn(const std::string& arguments, int processes = 0) {
  return run_program("run --quiet --timeline " + arguments, processes);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(ORRERY_SOURCE) + "/tests/cli/golden/" + name).rdbuf();
  return text.str();
}

TEST_F(Timeline, OfTinyIsTheGoldenPicture) {
  const std::string arguments = "--topology tiny --algorithm cann-bsp";
  const Outcome outcome = drawn(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, golden("timeline-tiny.txt"));
  EXPECT_EQ(drawn(arguments, 3).out, outcome.out);
}

// By hand: launch 1000 ns, issue 100 ns, fence 20 ns, four links of 500 ns; 14336 bytes take
// 1434 ns at each of the core's and the links' 10 bytes/ns. 4980 ns in 82 columns.
TEST_F(Timeline, OfOnePutCanBeFollowedByHand) {
  const Outcome outcome = drawn("--topology tiny --algorithm p2p");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("put, iteration 0: 0.000 to 4.980 us, 60 ns a column\n"));
  EXPECT_THAT(outcome.out, HasSubstr("device 0 core 0   LLLLLLLLLLLLLLLLII"));
  EXPECT_THAT(outcome.out, HasSubstr("device 1 core 0   lllllllllllllllll\n"));
  EXPECT_THAT(outcome.out, HasSubstr("critical path     LLLLLLLLLLLLLLLLII===="));
  EXPECT_THAT(outcome.out, HasSubstr("  on device       0-----------------"));
  EXPECT_THAT(outcome.out, HasSubstr("= serialisation, > hop latency\n"));
}

TEST_F(Timeline, KeepsToTheWidthOfTheTerminal) {
  for (const char* columns : {"60", "100", "173"}) {
    setenv("COLUMNS", columns, 1);
    std::size_t widest = 0;
    for (const std::string& line :
         lines_of(drawn("--topology tiny --algorithm cann-bsp --iterations 2").out)) {
      const bool row = line.starts_with("device") || line.starts_with("critical") ||
                       line.starts_with("us ") || line.find(" core ") != std::string::npos;
      if (row) widest = std::max(widest, line.size());
    }
    EXPECT_LE(widest, static_cast<std::size_t>(std::atoi(columns)));
    EXPECT_GE(widest + 2, static_cast<std::size_t>(std::atoi(columns)));
  }
  // Too narrow, or no number at all: still a picture.
  setenv("COLUMNS", "1", 1);
  EXPECT_THAT(drawn("--topology tiny --algorithm p2p").out, HasSubstr("device 0 core 0   LLLL"));
  setenv("COLUMNS", "wide", 1);
  const std::string text = drawn("--topology tiny --algorithm cann-bsp").out;
  EXPECT_EQ(text, golden("timeline-tiny.txt"));
}

TEST_F(Timeline, HasNoColourWhereThereIsNoTerminal) {
  EXPECT_THAT(drawn("--topology tiny --algorithm ring").out, Not(HasSubstr("\033")));
}

TEST_F(Timeline, OfALargeRunShowsThePathAndSaysWhatIsMissing) {
  const std::string arguments = "--topology cm384 --devices 16 --algorithm cann-bsp --tokens 8";
  const Outcome outcome = drawn(arguments);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr(" of 768 cores, on "));
  EXPECT_THAT(outcome.out,
              HasSubstr(" of 16 devices, are drawn: those of the critical path first"));
  EXPECT_THAT(outcome.out, HasSubstr("cores "));  // alike, in one row
  const std::vector<std::string> lines = lines_of(outcome.out);
  EXPECT_LT(lines.size(), 3u * 60);
  EXPECT_EQ(drawn(arguments, 2).out, outcome.out);
}

TEST_F(Timeline, StandsBesideATraceOfSomeDevices) {
  const std::string path = (scratch_folder() / "beside.json").string();
  const Outcome outcome =
      drawn("--topology tiny --algorithm cann-bsp --trace-devices 1-2 --trace " + path);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("device 1 core 0"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("device 0 core 0")));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(Timeline, OfARangeWithoutAnythingSaysSo) {
  const Outcome outcome =
      drawn("--topology tiny --algorithm cann-bsp --trace-from-us 5000 --trace-to-us 5001");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("dispatch, iteration 0: nothing of it was recorded\n"));
}

}  // namespace
}  // namespace orrery::cli
