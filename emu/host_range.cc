#include "emu/host_range.h"

#include <sys/mman.h>

#include <new>

namespace orrery::emu {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
}

HostRange::HostRange(std::uint64_t bytes) : mapped_(bytes + kHugePage), bytes_(bytes) {
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  data_ = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(mapping_) + kHugePage - 1) / kHugePage * kHugePage);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // advice: without huge pages it works all the same
}

HostRange::~HostRange() { munmap(mapping_, mapped_); }

// Page by page and not with one call: the host's lock on the address space, which other threads
// need to map memory, is held no longer than for one page.
void HostRange::commit(std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t kSmallestPage = 4096;
  volatile std::byte* page = data_ + offset;
  for (std::uint64_t at = 0; at < bytes; at += kSmallestPage) page[at] = std::byte{0};
}

}  // namespace orrery::emu
