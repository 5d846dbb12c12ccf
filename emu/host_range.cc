#include "emu/host_range.h"

#include <sys/mman.h>

#include <new>

namespace orrery::emu {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
}

HostRange::HostRange(std::uint64_t bytes) : mapped_(bytes + kHugePage), bytes_(bytes) {
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  data_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(mapping_) + kHugePage - 1) /
                                       kHugePage * kHugePage);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // advice: without huge pages it works all the same
}

HostRange::~HostRange() { munmap(mapping_, mapped_); }

void HostRange::commit(std::uint64_t offset, std::uint64_t bytes) const {
#ifdef MADV_POPULATE_WRITE
  madvise(data_ + offset, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(offset);
  static_cast<void>(bytes);
#endif
}

}  // namespace orrery::emu
