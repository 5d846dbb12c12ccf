// The values of a varied key: lists, ranges, and what is neither.
#include "cli/value_list.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "emu/errors.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> parse(const std::string& text) {
  return parse_values("--vary", "tokens", text);
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ValueList, CommasSeparate) {
  EXPECT_THAT(parse("8"), ElementsAre("8"));
  EXPECT_THAT(parse("8,16,int8"), ElementsAre("8", "16", "int8"));
}

TEST(ValueList, WhereASemicolonStandsItSeparates) {
  EXPECT_THAT(parse("0-3;0,2,4,6"), ElementsAre("0-3", "0,2,4,6"));
}

TEST(ValueList, RangesAdd) {
  EXPECT_THAT(parse("1:4"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(parse("1:9:+2"), ElementsAre("1", "3", "5", "7", "9"));
  EXPECT_THAT(parse("1:9:2"), ElementsAre("1", "3", "5", "7", "9"));
  EXPECT_THAT(parse("0:10:4"), ElementsAre("0", "4", "8"));
  EXPECT_THAT(parse("7:7"), ElementsAre("7"));
}

TEST(ValueList, RangesMultiply) {
  EXPECT_THAT(parse("1:256:*2"), ElementsAre("1", "2", "4", "8", "16", "32", "64", "128", "256"));
  EXPECT_THAT(parse("3:100:*3"), ElementsAre("3", "9", "27", "81"));
}

TEST(ValueList, RangesStandAmongValues) {
  EXPECT_THAT(parse("1:3,8,16:64:*2"), ElementsAre("1", "2", "3", "8", "16", "32", "64"));
}

TEST(ValueList, AColonBehindALetterIsJustAColon) { EXPECT_THAT(parse("a:b"), ElementsAre("a:b")); }

TEST(ValueList, RangesEndAtTheLargestNumber) {
  EXPECT_THAT(parse("18446744073709551614:18446744073709551615"),
              ElementsAre("18446744073709551614", "18446744073709551615"));
  EXPECT_THAT(parse("9223372036854775808:18446744073709551615:*2"),
              ElementsAre("9223372036854775808"));
  EXPECT_THAT(parse("1:18446744073709551615:18446744073709551615"), ElementsAre("1"));
}

TEST(ValueList, SaysWhatIsWrong) {
  for (const char* text : {"", ",", "8,", ",8", "8,,16", ";", "8;"})
    EXPECT_THAT(error_of(text), HasSubstr("--vary: tokens: got '', expected a value")) << text;
  for (const char* text : {"1:", "1:x", "1:2:", "1:2:+", "1:2:*", "1:2:x", "1:2:3:4", "1:2:-1",
                           "1::2", "1.5:3", "1:18446744073709551616", "1:2:**2"}) {
    EXPECT_THAT(error_of(text), HasSubstr(std::string("got '") + text + "', expected a range"))
        << text;
  }
  EXPECT_THAT(error_of("9:1"), HasSubstr("not below its first"));
  EXPECT_THAT(error_of("1:9:0"), HasSubstr("a step of at least 1"));
  EXPECT_THAT(error_of("1:9:*1"), HasSubstr("a factor of at least 2"));
  EXPECT_THAT(error_of("0:9:*2"), HasSubstr("a first value above 0"));
  EXPECT_THAT(error_of("a\nb"), HasSubstr("control characters"));
}

TEST(ValueList, HasABound) {
  EXPECT_EQ(parse("1:100000").size(), kMostPoints);
  EXPECT_THAT(error_of("1:100001"), HasSubstr("at most 100000"));
  EXPECT_THAT(error_of("0:18446744073709551615"), HasSubstr("at most 100000"));
}

}  // namespace
}  // namespace orrery::cli
