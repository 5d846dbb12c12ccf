#include "fabric/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "emu/errors.h"

namespace orrery::fabric {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}
std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
}  // namespace

Memory::Memory(std::uint64_t bytes) : size_(bytes) {
  // Aligned to huge pages, so that expect_dense() can use the first and the last of a range.
  const std::uint64_t mapped = round_up(std::max<std::uint64_t>(bytes, 1), kHugePage) + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw emu::ConfigError("memory", "bytes per device", fmt::format("{}", bytes),
                           "no more than this host's address space can reserve for every device");
  }
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t aligned = round_up(start, kHugePage);
  if (aligned > start) munmap(base, aligned - start);
  const std::uint64_t kept = round_up(std::max<std::uint64_t>(bytes, 1), kHugePage);
  if (start + mapped > aligned + kept) {
    munmap(reinterpret_cast<void*>(aligned + kept), start + mapped - aligned - kept);
  }
  base_ = reinterpret_cast<std::byte*>(aligned);
}

Memory::~Memory() { munmap(base_, round_up(std::max<std::uint64_t>(size_, 1), kHugePage)); }

void Memory::expect_dense(Address address, std::uint64_t bytes) {
  check(address, bytes);
  const Address first = round_up(address, kHugePage);
  const Address last = (address + bytes) / kHugePage * kHugePage;
  // Advice only: where the host has no huge pages the range stays as it is.
  if (last > first) madvise(base_ + first, last - first, MADV_HUGEPAGE);
}

void Memory::release_pages(Address address, std::uint64_t bytes) {
  check(address, bytes);
  const Address first = round_up(address, page_size());
  const Address last = (address + bytes) / page_size() * page_size();
  if (last > first) madvise(base_ + first, last - first, MADV_DONTNEED);
}

std::uint64_t Memory::resident_bytes() const {
  const std::uint64_t page = page_size();
  constexpr std::uint64_t kStep = 1 << 20;  // pages per call
  std::vector<unsigned char> held(kStep);
  std::uint64_t count = 0;
  const std::uint64_t pages = (size_ + page - 1) / page;
  for (std::uint64_t first = 0; first < pages; first += kStep) {
    const std::uint64_t step = std::min(kStep, pages - first);
    if (mincore(base_ + first * page, step * page, held.data()) != 0) return 0;
    for (std::uint64_t i = 0; i < step; ++i) count += held[i] & 1;
  }
  return count * page;
}

void Memory::out_of_range(Address address, std::uint64_t bytes) const {
  throw emu::InvariantError(fmt::format(
      "access to {} bytes at address {:#x} of a device memory of {:#x} bytes", bytes, address, size_));
}

}  // namespace orrery::fabric
