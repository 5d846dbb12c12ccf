// What the adversary does to protocols, counted over many seeds: whoever relies on more than a
// fabric promises is caught soon, and who does not, never.
#include "fabric/adversary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace orrery::fabric {
namespace {

using emu::Time;

constexpr Time kDelay = 10'000'000;
constexpr NodeId kReader = 7;
constexpr std::uint32_t kRecord = 512;  // 480 bytes of data, then 32 of flag

// A put of `records` records, seen block by block.
struct Row {
  std::uint32_t sequence;
  std::uint32_t records;
  Address to() const { return Address{sequence} * 65536; }
};

Packet block_of(const Row& row, Address address, std::uint32_t block_bytes) {
  Packet packet;
  packet.source = 3;
  packet.core = 2;
  packet.sequence = row.sequence;
  packet.put_bytes = row.records * kRecord;
  packet.address = address;
  packet.offset = static_cast<std::uint32_t>(address - row.to());
  packet.bytes = std::min(block_bytes, packet.put_bytes);
  return packet;
}

// Whether somebody who sees the flags of all records may miss some of the data.
bool is_torn(const Adversary& adversary, const Row& row, std::uint32_t block_bytes) {
  Time flags = 0;
  Time data = 0;
  for (Address at = row.to(); at < row.to() + row.records * kRecord; at += block_bytes) {
    const Time late = adversary.late(kReader, block_of(row, at, block_bytes), block_bytes);
    EXPECT_GE(late, 0);
    EXPECT_LE(late, kDelay);
    const bool has_flag = (at + block_bytes) % kRecord == 0;
    (has_flag ? flags : data) = std::max(has_flag ? flags : data, late);
  }
  return data > flags;
}

class FlagInRecord : public testing::TestWithParam<std::uint32_t> {};

// A handful of rows is enough, whether of one record or of many.
TEST_P(FlagInRecord, IsCaughtInAlmostEverySeed) {
  constexpr std::uint64_t kSeeds = 1000;
  constexpr std::uint32_t kRows = 8;
  for (const std::uint32_t records : {1u, 2u, 15u}) {
    std::uint64_t caught = 0;
    std::uint64_t torn = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      std::uint32_t rows = 0;
      for (std::uint32_t row = 0; row < kRows; ++row) {
        rows += is_torn({true, seed, kDelay}, {row, records}, GetParam()) ? 1 : 0;
      }
      torn += rows;
      caught += rows > 0 ? 1 : 0;
    }
    EXPECT_GE(caught, kSeeds * 99 / 100) << records;
    EXPECT_GE(torn, kSeeds * kRows / 2) << records;
    EXPECT_LT(torn, kSeeds * kRows) << "it should leave some rows alone";
  }
}
INSTANTIATE_TEST_SUITE_P(Blocks, FlagInRecord, testing::Values(256, 128, 64, 32));

TEST(Adversary, NothingTearsARecordOfOneBlock) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (std::uint32_t row = 0; row < 8; ++row) {
      EXPECT_FALSE(is_torn({true, seed, kDelay}, {row, 15}, kRecord)) << seed;
    }
  }
}

Packet flag(NodeId source, std::uint16_t core, std::uint32_t sequence) {
  Packet packet;
  packet.source = source;
  packet.core = core;
  packet.sequence = sequence;
  packet.put_bytes = 4;
  packet.bytes = 4;
  return packet;
}

// What becomes of the flags tells a seed's style.
TEST(Adversary, SeedsHaveStyles) {
  constexpr std::uint64_t kSeeds = 2000;
  std::uint64_t all_early = 0;
  std::uint64_t all_late = 0;
  std::uint64_t some_cores = 0;
  std::uint64_t some_puts = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Adversary adversary{true, seed, kDelay};
    std::uint32_t late = 0;
    std::set<std::uint16_t> late_cores;
    std::uint32_t mixed_cores = 0;
    for (std::uint16_t core = 0; core < 8; ++core) {
      std::uint32_t of_core = 0;
      for (std::uint32_t put = 0; put < 8; ++put) {
        of_core += adversary.late(kReader, flag(1, core, put), 64) > 0 ? 1 : 0;
      }
      late += of_core;
      if (of_core == 8) late_cores.insert(core);
      if (of_core > 0 && of_core < 8) ++mixed_cores;
    }
    if (late == 0) {
      ++all_early;
    } else if (late == 64) {
      ++all_late;
    } else if (mixed_cores == 0) {
      ++some_cores;
    } else {
      ++some_puts;
    }
  }
  EXPECT_NEAR(static_cast<double>(all_early) / kSeeds, 5.0 / 8, 0.05);
  EXPECT_NEAR(static_cast<double>(all_late) / kSeeds, 1.0 / 8, 0.03);
  EXPECT_NEAR(static_cast<double>(some_cores) / kSeeds, 1.0 / 8, 0.03);
  EXPECT_NEAR(static_cast<double>(some_puts) / kSeeds, 1.0 / 8, 0.03);
}

// Flags at the front of a message, or in the middle, are not safe either.
TEST(Adversary, AnyBlockOfAPutMayBeTheLast) {
  constexpr std::uint32_t kBlock = 64;
  const Row row{3, 2};
  std::map<Address, int> last;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Address latest = 0;
    Time most = -1;
    for (Address at = row.to(); at < row.to() + row.records * kRecord; at += kBlock) {
      const Time late =
          Adversary{true, seed, kDelay}.late(kReader, block_of(row, at, kBlock), kBlock);
      if (late > most) {
        most = late;
        latest = at;
      }
    }
    ++last[latest];
  }
  EXPECT_EQ(last.size(), row.records * kRecord / kBlock);
}

TEST(Adversary, IsTheSameEveryTimeAndAnotherWithEverySeed) {
  const Row row{5, 15};
  const auto trace = [&row](std::uint64_t seed) {
    std::vector<Time> late;
    for (Address at = row.to(); at < row.to() + row.records * kRecord; at += 64) {
      late.push_back(Adversary{true, seed, kDelay}.late(kReader, block_of(row, at, 64), 64));
    }
    return late;
  };
  EXPECT_EQ(trace(1), trace(1));
  std::set<std::vector<Time>> different;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) different.insert(trace(seed));
  EXPECT_GT(different.size(), 90u);  // in some seeds this put is not late at all
}

}  // namespace
}  // namespace orrery::fabric
