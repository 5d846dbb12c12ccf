// orrery topo, list and validate as a user meets them.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(TopoCommand, DescribesEveryShippedTopology) {
  for (const char* name :
       {"tiny",      "star",        "cm384",        "cm384-short-hop2", "ascend950-mesh8",
        "clos-4096", "gb200-nvl72", "ualink-72",    "h100-ib",          "h800-ib",
        "h200-roce", "h200-nvl8",   "p5en-efa",     "perlmutter",       "ascend950-supernode",
        "ub-mesh",   "hgx-h100",    "hgx-h100-hub", "hgx-h200",         "mi300x-8",
        "tpu7x",     "trn2"}) {
    const Outcome outcome = run_program(std::string("topo ") + name);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::StartsWith(std::string(name) + ": "));
    EXPECT_THAT(outcome.out, HasSubstr("bisection"));
  }
}

TEST(TopoCommand, TakesAFile) {
  const Outcome outcome =
      run_program(std::string("topo ") + ORRERY_SOURCE + "/topologies/tiny.textproto");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Four devices on two nodes"));
}

TEST(TopoCommand, DrawsAGraph) {
  const Outcome outcome = run_program("topo tiny --dot");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("graph"));
  EXPECT_THAT(outcome.out, HasSubstr("--"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '{'),
            std::count(outcome.out.begin(), outcome.out.end(), '}'));
}

TEST(TopoCommand, ShowsWhatFailed) {
  const Outcome outcome = run_program(
      "topo tiny --set fabric.failed_planes=1 --set fabric.failed_links=device3-L1.node1.plane0");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"failed planes         1\n", "failed link           device3-L1.node1.plane0",
        "failed cables         7 of 12", "no path"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

// Every name that it prints is one that failed_links takes.
TEST(TopoCommand, NamesEveryCable) {
  const Outcome outcome = run_program("topo tiny --links");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string all;
  int cables = 0;
  for (std::string line; std::getline(lines, line); ++cables)
    all += (cables > 0 ? "," : "") + line.substr(0, line.find(' '));
  EXPECT_EQ(cables, 12);
  EXPECT_THAT(outcome.out, HasSubstr("device-L1             500 ns       10 GB/s\n"));
  EXPECT_THAT(run_program("topo tiny --set fabric.failed_links=" + all).out,
              HasSubstr("failed cables         12 of 12"));
}

TEST(TopoCommand, UnderMpirunPrintsOnce) {
  EXPECT_EQ(run_program("topo tiny", 3).out, run_program("topo tiny").out);
}

TEST(ListCommand, NamesEverythingThatIsShipped) {
  EXPECT_THAT(run_program("list topologies").out, HasSubstr("cm384 "));
  EXPECT_THAT(run_program("list workloads").out,
              HasSubstr("hidden 7168, 256 experts, top 8, 61 layers"));
  EXPECT_THAT(run_program("list suites").out, HasSubstr("ub-mesh"));
  EXPECT_THAT(run_program("list nics").out, HasSubstr("ibgda                GPU-initiated"));
  EXPECT_THAT(run_program("list ranges").out, HasSubstr("assumed fields of cm384"));
  const Outcome algorithms = run_program("list algorithms");
  EXPECT_EQ(algorithms.code, 0);
  for (const char* part : {"cann-bsp", "p2p", "ring", "alltoall", "--set algorithm.bytes=14336"}) {
    EXPECT_THAT(algorithms.out, HasSubstr(part));
  }
}

// Without the rows that are compared with nothing: they take the most time and memory.
std::string ub_mesh_without_extra_rows() {
  std::ostringstream text;
  text << std::ifstream(std::string(ORRERY_SOURCE) + "/suites/ub-mesh.textproto").rdbuf();
  const std::regex extra(R"(rows \{[^}]*role: EXTRA[^}]*\})");
  return std::regex_replace(text.str(), extra, "");
}

TEST(ValidateCommand, PredictsEveryRowOfUbMeshWithin10Percent) {
  const std::string suite = scratch_file("ub-mesh.textproto", ub_mesh_without_extra_rows());
  const std::string path = (scratch_folder() / "ub-mesh.json").string();
  const Outcome outcome = run_program("validate --suite " + suite + " --json " + path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("median error of 1 predicted row"));
  const Json report = Json::parse(std::ifstream(path), nullptr, false);
  ASSERT_TRUE(report.is_object());
  int predicted = 0;
  int calibrating = 0;
  for (const Json& row : report.at("rows")) {
    predicted += row["role"] == "PREDICTED";
    calibrating += row["role"] == "CALIBRATES";
    const double error = std::abs(row.at("error_percent").get<double>());
    EXPECT_LT(error, row["role"] == "CALIBRATES" ? 0.2 : 10) << row.dump();
    EXPECT_THAT(row.at("source").get<std::string>(), HasSubstr("hccs_benchmark"));
  }
  EXPECT_EQ(predicted, 1);
  EXPECT_EQ(calibrating, 5);
}

TEST(ValidateCommand, SaysTheSameUnderMpirun) {
  const std::string suite =
      scratch_file("small.textproto",
                   "name: \"small\" timed: \"t\" byte_formula: \"b\"\n"
                   "common { topology: \"tiny\" algorithm: \"ring\" devices: 4 operation: \"put\" "
                   "source: \"s\" }\n"
                   "rows { id: \"a\" published_us: 5 settings: \"algorithm.bytes=4096\" }\n"
                   "rows { id: \"b\" published_us: 5 role: CALIBRATES statistic: MEAN }\n"
                   "rows { id: \"c\" role: EXTRA }\n");
  const Outcome alone = run_program("validate --suite " + suite);
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("median error of 1 predicted row:"));
  EXPECT_EQ(alone.out, run_program("validate --suite " + suite, 3).out);
}

TEST(Help, ListsTheCommands) {
  const Outcome outcome = run_program("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* command : {"run", "sweep", "validate", "topo", "list"})
    EXPECT_THAT(outcome.out, HasSubstr(command));
}

}  // namespace
}  // namespace orrery::cli
