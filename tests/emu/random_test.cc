// Pinned: these numbers are part of every published digest. A change here changes all results.
#include "emu/random.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <set>

#include "emu/digest.h"

namespace orrery::emu {
namespace {

TEST(Random, PinnedValues) {
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(mix64(1), 0x5692161d100b05e5u);
  // SplitMix64 seeded with 0: the published first outputs.
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15u), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(2 * 0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325u);  // FNV-1a
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(combine64(1, 2), 0xf4086ec62254e37fu);
  RandomStream stream(1, 2, "gate.experts");
  EXPECT_EQ(stream.at(0), 0x4b4fa72f7b44de99u);
  EXPECT_EQ(stream.at(1), 0x1e0a073b31ae0fd8u);
  EXPECT_EQ(stream.below(1000), 294u);
}

TEST(Random, AStreamIsAFunctionOfItsIndex) {
  RandomStream stream(7, 3, "test");
  const std::uint64_t fifth = stream.at(4);
  for (int i = 0; i < 4; ++i) stream.next();
  EXPECT_EQ(stream.next(), fifth);
}

TEST(Random, StreamsDifferBySeedDeviceAndPurpose) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t device = 0; device < 10; ++device) {
      for (const char* purpose : {"a", "b", "gate"})
        firsts.insert(RandomStream(seed, device, purpose).at(0));
    }
  }
  EXPECT_EQ(firsts.size(), 300u);
}

TEST(Random, BelowStaysBelowAndFillsTheRange) {
  RandomStream stream(1, 2, "below");
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[stream.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.below(1), 0u);
}

TEST(Digest, PinnedValues) {
  const std::array<std::byte, 5> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                       std::byte{5}};
  EXPECT_EQ(digest_bytes(bytes), 0x59b68387649283c1u);  // XXH3
  EXPECT_EQ(digest_bytes(bytes, 9), 0xa648f15eb52f6c43u);
  RunningDigest running;
  running.add(1);
  running.add(2);
  EXPECT_EQ(running.value(), 0xa4e6dceab54b7189u);
  EXPECT_EQ(to_hex(0xabcu), "0000000000000abc");
}

TEST(Digest, DependsOnOrderAndCount) {
  const auto digest = [](std::initializer_list<std::uint64_t> words) {
    RunningDigest running;
    for (const std::uint64_t word : words) running.add(word);
    return running.value();
  };
  EXPECT_NE(digest({1, 2}), digest({2, 1}));
  EXPECT_NE(digest({1}), digest({1, 0}));
  EXPECT_NE(digest({}), digest({0}));
}

}  // namespace
}  // namespace orrery::emu
