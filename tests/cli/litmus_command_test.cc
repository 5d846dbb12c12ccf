// orrery litmus as a user meets it.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

TEST(LitmusCommand, EveryShippedFabricKeepsItsWord) {
  const Outcome outcome = run_program("litmus --runs 20");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"cm384: order_scope DEVICE_PAIR, order_kind WHOLE, ack_at VISIBLE, atomic_block_bytes 512",
        "message: put data, put flag",
        "flag-in-512: ", "store-buffering-quiet: ", "no forbidden outcome was seen"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("FORBIDDEN")));
  EXPECT_EQ(outcome.err, "");
}

// What is promised is one network's or the other's.
TEST(LitmusCommand, RefusesAPlacementOverBothNetworks) {
  const Outcome outcome = run_program("litmus --topology h100-ib --placement 0-2,8 --runs 1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--placement"));
  EXPECT_THAT(outcome.err, HasSubstr("0-2,8"));
  EXPECT_THAT(outcome.err, HasSubstr("devices of one node, or of as many nodes"));
}

TEST(LitmusCommand, PrintsTheSameForAnyNumberOfProcesses) {
  const std::string arguments = "litmus --topology tiny --runs 7 --json ";
  const std::string path = (scratch_folder() / "litmus.json").string();
  std::string out;
  std::string json;
  for (const int processes : {0, 2, 3, 8}) {
    const Outcome outcome = run_program(arguments + path, processes);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (processes == 0) {
      out = outcome.out;
      json = text;
    }
    EXPECT_EQ(outcome.out, out) << processes;
    EXPECT_EQ(text, json) << processes;
  }
}

TEST(LitmusCommand, JsonSaysWhatWasSeenAndWhatIsAllowed) {
  const std::string path = (scratch_folder() / "litmus.json").string();
  const Outcome outcome = run_program(
      "litmus --topology tiny --test message --runs 50 --set fabric.order_scope=NONE --json " +
      path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(std::ifstream(path), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["runs"], 50);
  EXPECT_EQ(json["settings"][0], "fabric.order_scope=NONE");
  EXPECT_TRUE(json["forbidden"].empty());
  ASSERT_EQ(json["fabrics"].size(), 1u);
  ASSERT_EQ(json["fabrics"][0]["programs"].size(), 1u);
  const Json& program = json["fabrics"][0]["programs"][0];
  EXPECT_EQ(program["name"], "message");
  int seen = 0;
  for (const Json& each : program["outcomes"]) {
    EXPECT_EQ(each["allowed"], true) << each;
    seen += each["seen"].get<int>() + each["seen_with_adversary"].get<int>();
  }
  EXPECT_EQ(seen, 100);
  EXPECT_GT(program["outcomes"][1]["seen_with_adversary"], 0);
}

// The same seed alone shows what it showed among others.
TEST(LitmusCommand, ASeedReplays) {
  const std::string path = (scratch_folder() / "litmus.json").string();
  const std::string arguments =
      "litmus --topology tiny --test message --test put-put --set fabric.order_scope=NONE --json " +
      path;
  ASSERT_EQ(run_program(arguments + " --runs 50").code, 0);
  const Json all = Json::parse(std::ifstream(path), nullptr, false);
  for (int number = 0; number < 2; ++number) {
    const Json& outcome = all["fabrics"][0]["programs"][number]["outcomes"][1];
    ASSERT_TRUE(outcome.contains("first_seed")) << all.dump(2);
    const std::string seed = outcome["first_seed"].dump();
    ASSERT_EQ(run_program(arguments + " --runs 1 --seed " + seed).code, 0);
    const Json one = Json::parse(std::ifstream(path), nullptr, false);
    const Json& again = one["fabrics"][0]["programs"][number]["outcomes"][1];
    EXPECT_EQ(again["seen"].get<int>() + again["seen_with_adversary"].get<int>(), 1) << seed;
  }
}

TEST(LitmusCommand, ListsItsPrograms) {
  const Outcome outcome = run_program("litmus --list");
  EXPECT_EQ(outcome.code, 0);
  for (const char* name :
       {"message ", "message-fence ", "message-quiet ", "count-one-queue ", "atomic ",
        "signal-weak ", "flag-in-block ", "first-fragment ", "two-writers ", "put-put ",
        "source-reuse ", "unwritten ", "store-buffering "}) {
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
  EXPECT_THAT(outcome.out, HasSubstr("tells apart: data new; data old; data torn"));
}

TEST(LitmusCommand, SaysWhatAMachineIsTooSmallFor) {
  const Outcome outcome = run_program("litmus --topology star --runs 2 --test count-one-queue");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("not run: needs 2 devices of 2 cores"));
}

}  // namespace
}  // namespace orrery::cli
