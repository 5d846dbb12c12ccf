#include "emu/workers.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

namespace orrery::emu {
namespace {

class WorkersTest : public testing::TestWithParam<int> {};

TEST_P(WorkersTest, EachItemOncePerWindowAndInTurn) {
  constexpr std::size_t kItems = 7;
  Workers workers(GetParam(), kItems, true);
  std::vector<std::uint64_t> calls(kItems, 0);  // not atomic: one window happens before the next
  for (std::uint64_t window = 1; window <= 2000; ++window) {
    workers.run([&](std::size_t item) { ++calls[item]; });
    ASSERT_EQ(std::accumulate(calls.begin(), calls.end(), std::uint64_t{0}), window * kItems);
  }
  EXPECT_EQ(calls, std::vector<std::uint64_t>(kItems, 2000));
}

TEST_P(WorkersTest, ThrowsWhatTheWorkThrewAndGoesOn) {
  Workers workers(GetParam(), 5, true);
  int calls = 0;
  EXPECT_THROW(workers.run([](std::size_t item) {
    if (item == 3) throw std::runtime_error("three");
  }),
               std::runtime_error);
  workers.run([&calls](std::size_t item) {
    if (item == 3) ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST_P(WorkersTest, MayEndWithoutAnyWork) { Workers workers(GetParam(), 3, true); }

INSTANTIATE_TEST_SUITE_P(Threads, WorkersTest, testing::Values(1, 2, 5));

}  // namespace
}  // namespace orrery::emu
