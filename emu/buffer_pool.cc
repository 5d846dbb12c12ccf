#include "emu/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace orrery::emu {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
constexpr std::uint64_t kBlock = 32 << 20;
}  // namespace

static_assert(BufferPool::capacity_of(BufferPool::class_of(1)) == 256);
static_assert(BufferPool::capacity_of(BufferPool::class_of(257)) == 320);
static_assert(BufferPool::capacity_of(BufferPool::class_of(14336)) == 14336);
static_assert(BufferPool::capacity_of(BufferPool::class_of(7200)) == 8192);
static_assert(BufferPool::capacity_of(BufferPool::class_of(8192)) == 8192);

BufferPool::~BufferPool() {
  for (const Block& block : blocks_) munmap(block.base, block.bytes);
}

std::byte* BufferPool::take_block(std::uint64_t bytes) {
  const std::uint64_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  blocks_.push_back({static_cast<std::byte*>(base), mapped});
  reserved_ += bytes;
  const auto aligned =
      (reinterpret_cast<std::uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
  // Buffers fill a block one after the other, so huge pages cost nothing here.
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<std::byte*>(aligned);
}

Buffer* BufferPool::allocate(std::uint32_t size_class) {
  const std::uint64_t bytes = capacity_of(size_class) + Buffer::kHeaderBytes;
  if (left_ < bytes) {
    left_ = std::max(kBlock, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    cursor_ = take_block(left_);
  }
  auto* buffer = reinterpret_cast<Buffer*>(cursor_);
  cursor_ += bytes;
  left_ -= bytes;
  buffer->size_class = size_class;
  return buffer;
}

}  // namespace orrery::emu
