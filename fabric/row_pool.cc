#include "fabric/row_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace orrery::fabric {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
constexpr std::uint64_t kBlock = 32 << 20;
constexpr std::uint64_t kLine = 64;
}  // namespace

RowPool::~RowPool() {
  for (const Block& block : blocks_) munmap(block.base, block.bytes);
}

RowPool::Sizes& RowPool::of_size(std::uint64_t bytes) {
  const std::uint64_t rounded = (std::max<std::uint64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  return sizes_.try_emplace(rounded, *this, rounded).first->second;
}

std::byte* RowPool::take_block(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  blocks_.push_back({static_cast<std::byte*>(base), mapped});
  reserved_ += bytes;
  const auto aligned =
      (reinterpret_cast<std::uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
  // Rows fill a block one after the other, so huge pages cost nothing here.
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<std::byte*>(aligned);
}

void RowPool::Sizes::grow() {
  const std::uint64_t block = std::max(kBlock, (bytes_ + kHugePage - 1) / kHugePage * kHugePage);
  cursor_ = pool_.take_block(block);
  left_ = block;
}

}  // namespace orrery::fabric
