#include "cli/result_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cli/result_json.h"
#include "emu/errors.h"
#include "tests/cli/program.h"
#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kPoint =
    R"({"key": "tokens=8", "varied": [{"name": "tokens", "value": "8"}], "outcome": "ok", "error": "",
 "result": {"digest": "a", "output_digest": "b", "verified": true,
 "operations": [{"name": "put", "latency_us": {"max": 3}}]}})";

// On one line, with another value.
std::string point(const std::string& tokens) {
  std::string text = kPoint;
  std::erase(text, '\n');
  for (std::size_t at = 0; (at = text.find("8", at)) != std::string::npos; at += tokens.size()) {
    text.replace(at, 1, tokens);
  }
  return text + "\n";
}

std::string refusal(const std::string& text) {
  try {
    parse_result_file(text, "FILE");
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResultFile, ReadsWhatRunWrites) {
  const moe::Result result = run_result(run_options("tiny", "cann-bsp"));
  const ResultFile file = parse_result_file(to_json(result), "FILE");
  EXPECT_FALSE(file.is_sweep);
  EXPECT_EQ(to_json(file.result), to_json(result));
}

TEST(ResultFile, ReadsTheLinesOfASweepInItsOrder) {
  const ResultFile file = parse_result_file(point("16") + "\n" + point("2"), "FILE");
  EXPECT_TRUE(file.is_sweep);
  ASSERT_EQ(file.points.size(), 2u);
  EXPECT_EQ(point_name(file.points[0]), "tokens=2");
  EXPECT_TRUE(file.warnings.empty());
  const ResultFile other = parse_result_file(
      point("16") + point("2"), "FILE", R"({"vary": [{"key": "tokens", "values": ["16", "2"]}]})");
  EXPECT_EQ(point_name(other.points[0]), "tokens=16");
}

TEST(ResultFile, OneLineIsASweepToo) {
  EXPECT_TRUE(parse_result_file(point("16"), "FILE").is_sweep);
  EXPECT_TRUE(parse_result_file(kPoint, "FILE").is_sweep) << "however it is broken into lines";
}

TEST(ResultFile, ATornLastLineIsAWarning) {
  const std::string whole = point("16") + point("2");
  const std::string torn = point("32");
  for (std::size_t length = 1; length + 2 < torn.size(); length += 7) {
    const ResultFile file = parse_result_file(whole + torn.substr(0, length), "FILE");
    EXPECT_EQ(file.points.size(), 2u);
    ASSERT_EQ(file.warnings.size(), 1u) << length;
    EXPECT_EQ(file.warnings[0], "FILE:3: a torn last line is ignored");
  }
  EXPECT_EQ(parse_result_file(whole + torn.substr(0, torn.size() - 1), "FILE").points.size(), 3u)
      << "it lacks only its end";
}

TEST(ResultFile, ATornLineWithinIsRefused) {
  EXPECT_THAT(refusal(point("16") + point("2").substr(0, 30) + "\n" + point("4")),
              ::testing::StartsWith("FILE:2: got '"));
}

TEST(ResultFile, PointsWithoutAResultAreKept) {
  const ResultFile file = parse_result_file(
      point("16") + R"({"key": "k", "outcome": "error", "error": "why"})" + "\n", "FILE");
  EXPECT_EQ(file.points.size(), 2u);
}

TEST(ResultFile, SaysWhatIsWrongWithAFieldAndWhere) {
  const std::string good = R"("digest": "a", "output_digest": "b", )";
  const std::string put = R"("operations": [{"name": "put"}])";
  const std::pair<std::string, std::vector<const char*>> cases[] = {
      {"", {"FILE: ", "an empty file", "orrery run --json"}},
      {" \n\t\n", {"an empty file"}},
      {"\xff\xfe", {"FILE:1: ", "orrery run --json"}},
      {"{\n \"devices\": 4,\n oops}", {"FILE:3: "}},
      {"[1, 2]", {"'array'"}},
      {"7", {"'number'"}},
      {"1e999", {"FILE:1: "}},
      {"{}", {"operations", "'nothing'", "at least one operation"}},
      {"{\"device\": 4}", {"got 'device'", "did you mean 'devices'"}},
      {"{\"devices\": -1}", {"devices", "'-1'", "a whole number from 0"}},
      {"{\"devices\": \"many\"}", {"devices", "many", "a whole number from 0"}},
      {"{\"operations\": [{\"name\": \"a\"}, {\"nam\": 1}]}",
       {"operations[1]", "'nam'", "did you mean 'name'"}},
      {"{\"operations\": [{\"latency_us\": {\"min\": \"x\"}}]}",
       {"operations[0].latency_us.min", "a number"}},
      {"{\"operations\": [{\"latency_us\": 5}]}",
       {"operations[0].latency_us", "'5'", "an object with the fields of Latency"}},
      {"{" + good + "\"operations\": [{}]}", {"operations[0].name", "'nothing'"}},
      {"{" + good + "\"operations\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
       {"operations[1].name", "'a'", "only once"}},
      {"{" + good + R"("operations": [{"name": "a", "latency_us": {"max": -1}}]})",
       {"operations[0].latency_us.max", "'-1'", "from 0"}},
      {"{" + good + R"("operations": [{"name": "a", "latency_us": {"max": "Infinity"}}]})",
       {"latency_us.max", "'inf'"}},
      {"{" + good + R"("operations": [{"name": "a", "breakdown_us": {"issue": "NaN"}}]})",
       {"operations[0].breakdown_us.issue", "'nan'"}},
      {"{" + good + "\"counters\": {\"puts\": \"NaN\"}, " + put + "}", {"counters.puts", "'nan'"}},
      {"{\"digest\": \"a\", " + put + "}", {"output_digest", "'nothing'"}},
      {"{" + put + "}", {": digest", "'nothing'"}},
      {point("16") + "{\"key\": \"k\"}\n", {"FILE:2: ", "outcome", "hang or error"}},
      {point("16") + "{\"outcome\": \"hang\"}\n", {"FILE:2: ", "key", "'nothing'"}},
      {point("16") + point("16"), {"FILE:2: ", "key", "'tokens=16'", "only once"}},
      {point("16") + "{\"kee\": \"k\"}\n", {"FILE:2: ", "'kee'", "did you mean 'key'"}},
      {point("16") + "{\"key\": \"k\", \"outcome\": \"ok\"}\n", {"FILE:2: ", "result.operations"}},
      {point("16") + "7\n", {"FILE:2: "}},
  };
  for (const auto& [text, parts] : cases) {
    const std::string said = refusal(text);
    for (const char* part : parts) EXPECT_THAT(said, HasSubstr(part)) << text;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(ResultFile, DeepNestingIsRefused) {
  EXPECT_NE(refusal(std::string(100'000, '[')), "accepted");
  EXPECT_NE(
      refusal("{\"operations\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
      "accepted");
}

TEST(ResultFile, AFolderStandsForItsPoints) {
  const std::filesystem::path folder = scratch_folder() / "a-sweep";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "points.jsonl") << point("16") << point("2");
  std::ofstream(folder / "sweep.json") << R"({"vary": [{"key": "tokens", "values": ["16", "2"]}]})";
  const ResultFile file = load_result_file(folder.string());
  EXPECT_EQ(file.name, (folder / "points.jsonl").string());
  EXPECT_EQ(point_name(file.points.at(0)), "tokens=16") << "as sweep.json asks for";
  EXPECT_EQ(load_result_file(folder.string() + "/").points.size(), 2u);
}

}  // namespace
}  // namespace orrery::cli
