// The house rule of design section 2: includes run downwards only. Folder by folder, the #include
// lines of the sources and the import lines of the schemas are read and compared with it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, int> kFloors = {{"emu", 0},    {"fabric", 1}, {"devices", 2},
                                            {"litmus", 3}, {"moe", 3},    {"cli", 4}};

// The folder of the house that a line includes from, if it includes one's own file at all.
std::optional<std::string> included_folder(const std::string& line) {
  static const std::regex include(
      R"re(^\s*(?:#\s*include|import(?:\s+public|\s+weak)?)\s*["<](\.\./)*([a-z]+)/.*[">].*)re");
  std::smatch match;
  if (!std::regex_match(line, match, include)) return std::nullopt;
  return kFloors.contains(match[2]) || match[2] == "tests" ? std::optional<std::string>(match[2])
                                                           : std::nullopt;
}

// Two folders of one floor, litmus and moe, know nothing of each other.
bool may_include(const std::string& from, const std::string& to) {
  return from == to || (kFloors.contains(to) && kFloors.at(to) < kFloors.at(from));
}

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cc" || path.extension() == ".proto";
}

TEST(Includes, RunDownwardsOnly) {
  int lines = 0;
  for (const auto& [folder, floor] : kFloors) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ORRERY_SOURCE) / folder)) {
      if (!is_source(entry.path())) continue;
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        const auto target = included_folder(line);
        if (!target) continue;
        ++lines;
        EXPECT_TRUE(may_include(folder, *target))
            << entry.path().string() << ":" << number << ": " << folder << "/ may not include "
            << *target << "/";
      }
    }
  }
  EXPECT_GT(lines, 100) << "the test no longer sees the include lines";
}

TEST(Includes, TheRuleIsTheOneInTheDesign) {
  EXPECT_EQ(included_folder("#include \"moe/run.h\""), "moe");
  EXPECT_EQ(included_folder("#  include <emu/time.h>  // why"), "emu");
  EXPECT_EQ(included_folder("#include \"../cli/commands.h\""), "cli");
  EXPECT_EQ(included_folder("import \"fabric/fabric.proto\";"), "fabric");
  EXPECT_EQ(included_folder("#include <fmt/format.h>"), std::nullopt);
  EXPECT_EQ(included_folder("// #include \"moe/run.h\""), std::nullopt);
  EXPECT_TRUE(may_include("cli", "emu"));
  EXPECT_TRUE(may_include("moe", "moe"));
  EXPECT_FALSE(may_include("emu", "fabric"));
  EXPECT_TRUE(may_include("litmus", "devices"));
  EXPECT_FALSE(may_include("devices", "moe"));
  EXPECT_FALSE(may_include("litmus", "moe"));
  EXPECT_FALSE(may_include("moe", "litmus"));
  EXPECT_FALSE(may_include("moe", "cli"));
  EXPECT_FALSE(may_include("cli", "tests"));
}

}  // namespace
