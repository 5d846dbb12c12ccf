#include "fabric/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "emu/errors.h"

namespace orrery::fabric {
namespace {

TEST(Memory, ReadsAsZeroUntilWritten) {
  Memory memory(1 << 20);
  for (Address address = 0; address < 1 << 20; address += 4093) {
    EXPECT_EQ(memory.load<std::uint8_t>(address), 0);
  }
  memory.store(1000, std::uint64_t{0x1122334455667788});
  EXPECT_EQ(memory.load<std::uint32_t>(1004), 0x11223344u);
  EXPECT_EQ(memory.load<std::uint8_t>(999), 0);
  EXPECT_EQ(memory.load<std::uint8_t>(1008), 0);
}

TEST(Memory, ChecksItsBounds) {
  Memory memory(1000);
  EXPECT_EQ(memory.view(992, 8).size(), 8u);
  EXPECT_EQ(memory.view(1000, 0).size(), 0u);
  EXPECT_THROW(memory.view(993, 8), emu::InvariantError);
  EXPECT_THROW(memory.view(1001, 0), emu::InvariantError);
  EXPECT_THROW(memory.view(std::numeric_limits<Address>::max(), 2), emu::InvariantError);
  EXPECT_THROW(memory.view(8, std::numeric_limits<std::uint64_t>::max()), emu::InvariantError);
  EXPECT_THROW(memory.store(998, std::uint32_t{1}), emu::InvariantError);
  EXPECT_THROW(memory.load<std::uint32_t>(998), emu::InvariantError);
}

TEST(Memory, OfNothing) {
  Memory memory(0);
  EXPECT_EQ(memory.view(0, 0).size(), 0u);
  EXPECT_THROW(memory.view(0, 1), emu::InvariantError);
}

TEST(Memory, ReservesFarMoreThanTheHostHas) {
  // 512 GiB each: only what is written is held.
  std::vector<std::unique_ptr<Memory>> memories;
  for (int i = 0; i < 8; ++i) memories.push_back(std::make_unique<Memory>(std::uint64_t{1} << 39));
  for (auto& memory : memories) memory->store((std::uint64_t{1} << 39) - 8, std::uint64_t{7});
  EXPECT_EQ(memories[5]->load<std::uint64_t>((std::uint64_t{1} << 39) - 8), 7u);
}

TEST(Memory, DiscardedPagesReadAsZero) {
  Memory memory(1 << 20);
  for (Address address = 0; address < 1 << 20; address += 512)
    memory.store(address, std::uint32_t{9});
  memory.discard(4096, 3 * 4096);
  EXPECT_EQ(memory.load<std::uint32_t>(0), 9u);
  EXPECT_EQ(memory.load<std::uint32_t>(4096 - 512), 9u);
  EXPECT_EQ(memory.load<std::uint32_t>(4096), 0u);
  EXPECT_EQ(memory.load<std::uint32_t>(4 * 4096 - 512), 0u);
  EXPECT_EQ(memory.load<std::uint32_t>(4 * 4096), 9u);
}

class RowMemory : public testing::Test {
 protected:
  static constexpr std::uint64_t kRow = 100;
  emu::BlockSource blocks;
  emu::BufferPool pool{0, 1, blocks};
  Memory memory{{Region{4096, 0, false}, Region{10 * kRow, kRow, false}}, &pool};
  static Address row(std::uint64_t n) { return Region::base(1) + n * kRow; }
};

TEST_F(RowMemory, RegionsAreApart) {
  memory.store(0, std::uint32_t{1});
  memory.store(row(0), std::uint32_t{2});
  EXPECT_EQ(memory.load<std::uint32_t>(0), 1u);
  EXPECT_EQ(memory.load<std::uint32_t>(row(0)), 2u);
  EXPECT_FALSE(memory.has_rows(0));
  EXPECT_TRUE(memory.has_rows(row(3)));
  EXPECT_FALSE(memory.has_rows(Region::base(2)));
}

TEST_F(RowMemory, RowsReadAsZeroUntilWritten) {
  EXPECT_EQ(std::as_const(memory).load<std::uint64_t>(row(4) + 20), 0u);
  memory.store(row(4) + 40, std::uint64_t{~std::uint64_t{0}});
  for (std::uint64_t at = 0; at < kRow; ++at) {
    EXPECT_EQ(memory.load<std::uint8_t>(row(4) + at), at >= 40 && at < 48 ? 0xff : 0) << at;
  }
}

TEST_F(RowMemory, NoAccessCrossesARowsEndOrTheRegions) {
  EXPECT_NO_THROW(memory.view(row(2), kRow));
  EXPECT_THROW(memory.view(row(2) + 1, kRow), emu::InvariantError);
  EXPECT_THROW(memory.store(row(3) - 2, std::uint32_t{1}), emu::InvariantError);
  EXPECT_THROW(memory.view(row(10), 1), emu::InvariantError);
  EXPECT_THROW(memory.view(Region::base(2), 1), emu::InvariantError);
  EXPECT_THROW(memory.view(Region::base(1) - 1, 1), emu::InvariantError);
}

TEST_F(RowMemory, DiscardedRowsAreZeroAgainAndSaySo) {
  for (std::uint64_t n = 0; n < 10; ++n) memory.store(row(n), std::uint64_t{n + 1});
  EXPECT_FALSE(memory.is_discarded_row(row(3)));
  memory.discard(row(3), 2 * kRow);
  EXPECT_TRUE(memory.is_discarded_row(row(3)));
  EXPECT_TRUE(memory.is_discarded_row(row(4) + 50));
  EXPECT_FALSE(memory.is_discarded_row(row(5)));
  EXPECT_EQ(memory.load<std::uint64_t>(row(3)), 0u);
  EXPECT_EQ(memory.load<std::uint64_t>(row(2)), 3u);
  EXPECT_EQ(memory.load<std::uint64_t>(row(5)), 6u);
  memory.store(row(4) + 90, std::uint16_t{5});
  EXPECT_FALSE(memory.is_discarded_row(row(4)));
  EXPECT_EQ(memory.load<std::uint64_t>(row(4)), 0u) << "a recycled buffer shows its past";
}

TEST_F(RowMemory, RecycledBuffersAreClean) {
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t n = 0; n < 10; ++n) {
      for (std::uint64_t at = 0; at < kRow; ++at)
        EXPECT_EQ(memory.load<std::uint8_t>(row(n) + at), 0);
      std::ranges::fill(memory.view(row(n), kRow), std::byte{0xaa});
    }
    memory.discard(row(0), 10 * kRow);
  }
}

}  // namespace
}  // namespace orrery::fabric
