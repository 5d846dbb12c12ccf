#include "cli/sweep_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

std::vector<std::string> sorted(const SweepOrder& order, std::vector<std::string> values) {
  std::sort(values.begin(), values.end(), [&order](const std::string& a, const std::string& b) {
    return order.is_before("k", a, b);
  });
  return values;
}

using Values = std::vector<std::string>;

TEST(SweepOrder, IsTheOneAskedFor) {
  const SweepOrder order(R"({"vary": [{"key": "k", "values": ["512", "256", "1024"]}]})");
  EXPECT_EQ(sorted(order, {"1024", "256", "512"}), (Values{"512", "256", "1024"}));
  EXPECT_EQ(sorted(order, {"1", "1024", "512"}), (Values{"512", "1024", "1"})) << "strangers last";
}

TEST(SweepOrder, IsBySizeThenByTheAlphabetIfNothingIsKnown) {
  for (const char* text : {"", "[", "{}", "[1]", R"({"vary": 3})", R"({"vary": [{"key": 1}]})",
                           R"({"vary": [{"key": "k", "values": [1]}]})"}) {
    EXPECT_EQ(sorted(SweepOrder(text), {"zeta", "128", "16", "alpha", "1e1", "-2"}),
              (Values{"-2", "1e1", "16", "128", "alpha", "zeta"}))
        << text;
  }
}

TEST(SweepOrder, TheFirstKeyOfAPointIsSlowest) {
  const moe::Result result = simple_result("put", 1);
  const SweepOrder order;
  const PointRecord a = simple_point({{"a", "2"}, {"b", "100"}}, result);
  const PointRecord b = simple_point({{"a", "10"}, {"b", "20"}}, result);
  const PointRecord c = simple_point({{"a", "10"}, {"b", "100"}}, result);
  EXPECT_TRUE(order.is_before(a, b));
  EXPECT_TRUE(order.is_before(b, c));
  EXPECT_FALSE(order.is_before(c, a));
  EXPECT_FALSE(order.is_before(c, c));
}

}  // namespace
}  // namespace orrery::cli
