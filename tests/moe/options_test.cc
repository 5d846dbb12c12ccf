#include "moe/options.h"

#include <gtest/gtest.h>

#include "emu/errors.h"

namespace orrery::moe {
namespace {

Options options_with(const std::string& value) {
  Options options({{"factor", "1.5", "for a test", {}}});
  options.set("factor", value);
  return options;
}

TEST(Options, DecimalsAreReadAsTheyAreWritten) {
  EXPECT_EQ(Options({{"factor", "1.5", "", {}}}).decimal("factor", 0, 2), 1.5);
  EXPECT_EQ(options_with("0").decimal("factor", 0, 2), 0.0);
  EXPECT_EQ(options_with("2").decimal("factor", 0, 2), 2.0);
  EXPECT_EQ(options_with("1e-3").decimal("factor", 0, 2), 0.001);
}

TEST(Options, WhatIsNoDecimalInRangeIsRefused) {
  for (const char* value : {"", "x", "1x", "-0.1", "2.1", "nan", "inf", "1,5", " 1", "0x1"}) {
    EXPECT_THROW(options_with(value).decimal("factor", 0, 2), emu::ConfigError) << value;
  }
}

}  // namespace
}  // namespace orrery::moe
