#include "fabric/carried.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emu/errors.h"
#include "fabric/memory.h"

namespace orrery::fabric {
namespace {

TEST(Carried, EverythingIsWhereItIs) {
  const Carried carried;
  EXPECT_TRUE(carried.everything());
  EXPECT_EQ(carried.before(77), 77u);
  EXPECT_EQ(carried.count(10, 5), 5u);
}

TEST(Carried, CountsRangesOneAfterTheOther) {
  const Carried carried({{0, 8}, {50, 70}}, 100);
  EXPECT_EQ(carried.before(0), 0u);
  EXPECT_EQ(carried.before(5), 5u);
  EXPECT_EQ(carried.before(30), 8u);
  EXPECT_EQ(carried.before(55), 13u);
  EXPECT_EQ(carried.before(100), 28u);
  EXPECT_EQ(carried.count(8, 42), 0u);
  EXPECT_EQ(carried.count(4, 60), 18u);
}

TEST(Carried, EndsWithTheRow) {
  EXPECT_EQ(Carried({{0, 8}, {50, 70}}, 60).before(60), 18u);
  EXPECT_EQ(Carried({{0, 8}, {50, 70}}, 4).before(4), 4u);
}

class HollowRows : public testing::Test {
 protected:
  static constexpr std::uint64_t kRow = 100;
  static Address row(std::uint64_t n) { return Region::base(0) + n * kRow; }
  emu::BlockSource blocks;
  emu::BufferPool pool{0, 1, blocks};
  Memory memory{{Region{10 * kRow, kRow, false, Carried({{0, 8}, {50, 70}}, kRow)},
                 Region{1000, 0, false, {}}},
                &pool};
};

TEST_F(HollowRows, HoldWhatIsCarried) {
  memory.store(row(2), std::uint64_t{5});
  memory.store(row(2) + 50, std::uint32_t{6});
  EXPECT_EQ(memory.load<std::uint64_t>(row(2)), 5u);
  EXPECT_EQ(memory.load<std::uint32_t>(row(2) + 50), 6u);
  EXPECT_EQ(memory.load<std::uint32_t>(row(2) + 66), 0u);
  EXPECT_EQ(memory.load<std::uint64_t>(row(3)), 0u);
}

TEST_F(HollowRows, RefuseTheRest) {
  EXPECT_THROW(memory.view(row(1) + 8, 1), emu::InvariantError);
  EXPECT_THROW(memory.view(row(1), 9), emu::InvariantError);
  EXPECT_THROW(std::as_const(memory).view(row(1) + 45, 10), emu::InvariantError);
  EXPECT_THROW(memory.store(row(1) + 68, std::uint32_t{1}), emu::InvariantError);
}

TEST_F(HollowRows, TakeInWhatAPacketCarries) {
  std::vector<std::byte> bytes(memory.carried(row(4) + 4, 60));
  ASSERT_EQ(bytes.size(), 18u);  // 4 of the first range, 14 of the second
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
  memory.write_carried(row(4) + 4, 60, bytes.data());
  EXPECT_EQ(memory.load<std::uint8_t>(row(4) + 3), 0);
  EXPECT_EQ(memory.load<std::uint8_t>(row(4) + 4), 1);
  EXPECT_EQ(memory.load<std::uint8_t>(row(4) + 50), 5);
  EXPECT_EQ(memory.load<std::uint8_t>(row(4) + 63), 18);
  EXPECT_EQ(memory.load<std::uint8_t>(row(4) + 64), 0);
  memory.write_carried(row(5) + 10, 30, bytes.data());  // nothing of it
  EXPECT_EQ(memory.load<std::uint64_t>(row(5)), 0u);
}

TEST_F(HollowRows, CopyAndMove) {
  memory.store(row(0), std::uint64_t{7});
  memory.store(row(0) + 60, std::uint16_t{8});
  memory.copy(row(1), row(0), kRow);
  EXPECT_EQ(memory.load<std::uint16_t>(row(1) + 60), 8);
  memory.move_row(row(2), row(0));
  EXPECT_EQ(memory.load<std::uint64_t>(row(2)), 7u);
  EXPECT_TRUE(memory.is_discarded_row(row(0)));
  EXPECT_THROW(memory.copy(Region::base(1), row(1), kRow), emu::InvariantError);
}

TEST_F(HollowRows, AdoptABuffer) {
  emu::Buffer* buffer = pool.acquire(emu::BufferPool::class_of(28));
  std::memset(buffer->bytes(), 0xee, 28);
  // 60 bytes from the row's beginning: the first range and 10 bytes of the second.
  ASSERT_TRUE(memory.adopt(row(6), buffer, 60));
  EXPECT_EQ(memory.load<std::uint8_t>(row(6) + 59), 0xee);
  EXPECT_EQ(memory.load<std::uint8_t>(row(6) + 60), 0);
}

}  // namespace
}  // namespace orrery::fabric
