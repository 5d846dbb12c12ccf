// The table of algorithms and what becomes of registration lines.
#include "moe/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "moe/plugin.h"

namespace orrery::moe {
namespace {

using ::testing::HasSubstr;

class Idle : public Algorithm {
 public:
  Idle() {
    layout_.flat(100);
    layout_.rows(3, 512);
  }
  std::vector<std::string> operations() const override { return {"nothing"}; }
  const Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override { return 0; }
  emu::Task program(devices::Core&, std::uint32_t, std::uint32_t) override { return {}; }
  Verdict verify(devices::DeviceProcess&, std::uint32_t, std::uint32_t) override { return {}; }

 private:
  Layout layout_;
};

AlgorithmEntry entry(const std::string& name) {
  return {name, "for a test", {}, false, [](const Problem&, const Options&) {
            return std::make_unique<Idle>();
          }};
}

bool is_listed(const std::string& name) {
  return std::any_of(algorithms().begin(), algorithms().end(),
                     [&](const AlgorithmEntry& each) { return each.name == name; });
}

TEST(Algorithm, TouchesItsWholeLayoutUnlessItKnowsBetter) {
  EXPECT_EQ(Idle().touched_bytes(0), 100u + 3 * 512);
}

TEST(Registration, KeepsTheTableSorted) {
  begin_registration("a stamp");
  EXPECT_TRUE(register_algorithm("a stamp", [] { return entry("test-sorted"); }));
  const Registration registration = end_registration();
  EXPECT_EQ(registration.lines, 1u);
  EXPECT_EQ(registration.refused, "");
  EXPECT_EQ(find_algorithm("test-sorted").description, "for a test");
  EXPECT_TRUE(std::is_sorted(
      algorithms().begin(), algorithms().end(),
      [](const AlgorithmEntry& a, const AlgorithmEntry& b) { return a.name < b.name; }));
}

// Nothing of an entry may be looked at before the stamps agree: its very layout may differ.
TEST(Registration, OfAnotherReleaseIsRefusedUnread) {
  begin_registration("this stamp");
  static bool described = false;
  EXPECT_FALSE(register_algorithm("that stamp", [] {
    described = true;
    return entry("from-that-release");
  }));
  EXPECT_THAT(end_registration().refused,
              ::testing::AllOf(HasSubstr("this stamp"), HasSubstr("that stamp")));
  EXPECT_FALSE(described);
  EXPECT_FALSE(is_listed("from-that-release"));
}

TEST(Registration, OfATakenNameIsRefused) {
  begin_registration("a stamp");
  EXPECT_FALSE(register_algorithm("a stamp", [] { return entry("p2p"); }));
  EXPECT_FALSE(register_algorithm("another", [] { return entry("q2q"); }));
  const Registration registration = end_registration();
  EXPECT_EQ(registration.lines, 2u);
  EXPECT_THAT(registration.refused, HasSubstr("'p2p'"));  // the first one counts
  EXPECT_NE(find_algorithm("p2p").description, "for a test");
}

TEST(Registration, ThatThrowsIsRefusedNotFatal) {
  begin_registration("a stamp");
  EXPECT_FALSE(register_algorithm(
      "a stamp", []() -> AlgorithmEntry { throw std::runtime_error("no entry today"); }));
  EXPECT_EQ(end_registration().refused, "no entry today");
}

TEST(Registration, OfABuiltInNameTwiceEndsTheProgram) {
  EXPECT_EXIT(register_algorithm(kAbi, [] { return entry("p2p"); }), ::testing::ExitedWithCode(1),
              "built-in.*'p2p' already");
}

// Program and plug-in headers must never agree by accident.
TEST(Registration, StampOfPluginsIsNotTheOneOfTheProgram) {
  EXPECT_NE(plugin_abi(), std::string(kAbi));
  EXPECT_THAT(plugin_abi(), ::testing::MatchesRegex("[0-9.]+-[0-9a-f]+"));
}

}  // namespace
}  // namespace orrery::moe
