#include "emu/payload_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "emu/buffer_pool.h"
#include "emu/errors.h"

namespace orrery::emu {
namespace {

std::vector<std::byte> bytes_of(std::size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return bytes;
}
bool holds(Buffer* buffer, const std::vector<std::byte>& bytes) {
  return std::equal(bytes.begin(), bytes.end(), buffer->bytes());
}

TEST(BufferPool, AClassHoldsItsBytesAndLittleMore) {
  for (std::uint64_t bytes = 1; bytes < 200'000; bytes += bytes < 5000 ? 1 : 37) {
    const std::uint64_t capacity = BufferPool::capacity_of(BufferPool::class_of(bytes));
    ASSERT_GE(capacity, bytes);
    ASSERT_LE(capacity, std::max<std::uint64_t>(bytes + bytes / 4 + 64, 512));
  }
  for (std::uint64_t bytes = 1 << 20; bytes < std::uint64_t{1} << 40; bytes = bytes * 3 / 2 + 1) {
    ASSERT_GE(BufferPool::capacity_of(BufferPool::class_of(bytes)), bytes);
  }
}

TEST(BufferPool, RecyclesAndDoesNotGrow) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  const std::uint32_t size_class = BufferPool::class_of(4096);
  Buffer* first = pool.acquire(size_class);
  const std::uint64_t reserved = pool.bytes_reserved();
  pool.release(first);
  for (int i = 0; i < 10'000; ++i) {
    Buffer* again = pool.acquire(size_class);
    EXPECT_EQ(again, first);
    pool.release(again);
  }
  EXPECT_EQ(pool.bytes_reserved(), reserved);
}

TEST(BufferPool, SharedBuffersStayUntilTheLastRelease) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  Buffer* buffer = pool.acquire(BufferPool::class_of(100));
  buffer->retain();
  pool.release(buffer);
  EXPECT_NE(pool.acquire(BufferPool::class_of(100)), buffer);
  pool.release(buffer);
  EXPECT_EQ(pool.acquire(BufferPool::class_of(100)), buffer);
}

TEST(PayloadStore, BuffersDoNotOverlap) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  PayloadStore store(pool, 1);
  std::vector<std::pair<Buffer*, std::vector<std::byte>>> held;
  for (int i = 0; i < 500; ++i) {
    const auto bytes = bytes_of(static_cast<std::size_t>(1 + i * 97 % 9000), i);
    held.emplace_back(store.capture(bytes), bytes);
  }
  for (const auto& [buffer, bytes] : held) EXPECT_TRUE(holds(buffer, bytes));
}

TEST(PayloadStore, CapturesNothingToo) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  PayloadStore store(pool, 1);
  EXPECT_NE(store.capture({}), nullptr);
}

TEST(PayloadStore, GivesOutArrivalsByNumberInAnyOrder) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  PayloadStore store(pool, 3);
  std::uint64_t arrived = 0;
  std::uint64_t taken = 0;
  // Up to 200 wait; they are taken in pairs, the later one first.
  while (taken < 5000) {
    while (arrived < taken + 200) {
      store.arrived(2, arrived, bytes_of(32, static_cast<int>(arrived)));
      ++arrived;
    }
    for (const std::uint64_t number : {taken + 1, taken}) {
      Buffer* buffer = store.take(2, number);
      EXPECT_TRUE(holds(buffer, bytes_of(32, static_cast<int>(number))));
      pool.release(buffer);
    }
    taken += 2;
  }
}

TEST(PayloadStore, KeepsProcessesApart) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  PayloadStore store(pool, 2);
  store.arrived(0, 0, bytes_of(8, 10));
  store.arrived(1, 0, bytes_of(8, 20));
  EXPECT_TRUE(holds(store.take(1, 0), bytes_of(8, 20)));
  EXPECT_TRUE(holds(store.take(0, 0), bytes_of(8, 10)));
}

TEST(PayloadStore, BrokenPromisesAreErrors) {
  BlockSource blocks;
  BufferPool pool{0, 1, blocks};
  PayloadStore store(pool, 1);
  EXPECT_THROW(store.take(0, 0), InvariantError);
  EXPECT_THROW(store.arrived(0, 1, bytes_of(8, 0)), InvariantError);
  store.arrived(0, 0, bytes_of(8, 0));
  EXPECT_THROW(store.take(0, 1), InvariantError);
  store.take(0, 0);
  EXPECT_THROW(store.take(0, 0), InvariantError);
}

}  // namespace
}  // namespace orrery::emu
