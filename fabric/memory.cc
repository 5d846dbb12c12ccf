#include "fabric/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

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
std::byte* reserve(std::uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw emu::ConfigError("memory", "bytes per device", fmt::format("{}", bytes),
                           "no more than this host's address space can reserve for every device");
  }
  return static_cast<std::byte*>(base);
}
}  // namespace

Memory::Memory(const std::vector<Region>& regions, emu::BufferPool* pool) : pool_(pool) {
  std::uint64_t longest_row = 0;
  for (const Region& region : regions) {
    if (region.bytes > kOffsetMask) {
      throw emu::ConfigError("memory", "bytes of a region", fmt::format("{}", region.bytes),
                             fmt::format("at most {}", kOffsetMask));
    }
    Mapping mapping;
    mapping.bytes = region.bytes;
    mapping.row_bytes = region.row_bytes;
    if (region.row_bytes == 0) {
      mapping.mapped = round_up(std::max<std::uint64_t>(region.bytes, 1), page_size());
      mapping.base = reserve(mapping.mapped);
      mapping.mapped_at = mapping.base;
      // Advice only: where the host has no huge pages the region stays as it is.
      if (region.dense) madvise(mapping.base, mapping.mapped, MADV_HUGEPAGE);
    } else {
      const std::uint64_t rows = (region.bytes + region.row_bytes - 1) / region.row_bytes;
      mapping.mapped =
          round_up(std::max<std::uint64_t>(rows, 1) * sizeof(emu::Buffer*), page_size());
      // Algorithms write a few rows of each of many lists, all over a table: hardly a page of a
      // large one stays untouched.
      const bool large = mapping.mapped >= kHugePage / 2;
      if (large) mapping.mapped = round_up(mapping.mapped, kHugePage) + kHugePage;
      mapping.mapped_at = reserve(mapping.mapped);
      mapping.rows = static_cast<emu::Buffer**>(mapping.mapped_at);
      if (large) {
        mapping.rows = reinterpret_cast<emu::Buffer**>(
            round_up(reinterpret_cast<std::uintptr_t>(mapping.mapped_at), kHugePage));
        madvise(mapping.rows, mapping.mapped - kHugePage, MADV_HUGEPAGE);
      }
      mapping.carried = region.carried;
      mapping.everything = region.carried.everything();
      mapping.buffer_bytes = mapping.carried.before(region.row_bytes);
      mapping.size_class = emu::BufferPool::class_of(mapping.buffer_bytes);
      longest_row = std::max(longest_row, mapping.buffer_bytes);
    }
    mappings_.push_back(mapping);
  }
  zeros_.resize(longest_row);
}

Memory::~Memory() {
  // Rows belong to the pool, which outlives this memory and gives all of them back at its own end.
  for (const Mapping& mapping : mappings_) munmap(mapping.mapped_at, mapping.mapped);
}

void Memory::discard(Address address, std::uint64_t bytes) {
  const std::size_t region = address >> Region::kRegionBits;
  if (region >= mappings_.size() || (address & kOffsetMask) + bytes > mappings_[region].bytes) {
    out_of_range(address, bytes);
  }
  Mapping& mapping = mappings_[region];
  const std::uint64_t offset = address & kOffsetMask;
  if (mapping.row_bytes == 0) {
    const std::uint64_t first = round_up(offset, page_size());
    const std::uint64_t last = (offset + bytes) / page_size() * page_size();
    if (last > first) madvise(mapping.base + first, last - first, MADV_DONTNEED);
    return;
  }
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t row = round_up(offset, mapping.row_bytes) / mapping.row_bytes;
       row * mapping.row_bytes < end; ++row) {
    const bool whole = std::min((row + 1) * mapping.row_bytes, mapping.bytes) <= end;
    if (!whole) continue;
    if (is_live(mapping.rows[row])) pool_->release(mapping.rows[row]);
    mapping.rows[row] = discarded();
  }
}

emu::Buffer*& Memory::row_at(Address address) {
  Mapping& mapping = find(address, 0);
  const std::uint64_t offset = address & kOffsetMask;
  if (mapping.row_bytes == 0 || offset % mapping.row_bytes != 0) {
    throw emu::InvariantError(fmt::format("no row begins at {:#x}", address));
  }
  return mapping.rows[offset / mapping.row_bytes];
}

bool Memory::adopt(Address address, emu::Buffer* buffer, std::uint64_t bytes) {
  Mapping& mapping = find(address, bytes);
  const std::uint64_t offset = address & kOffsetMask;
  if (mapping.row_bytes == 0 || !buffer->is_unshared() ||
      buffer->size_class != mapping.size_class || offset % mapping.row_bytes != 0) {
    return false;
  }
  emu::Buffer*& row = mapping.rows[offset / mapping.row_bytes];
  if (is_live(row)) return false;  // the rest of the row stays as it is
  row = buffer;
  const std::uint64_t held = mapping.carried.before(bytes);
  std::memset(buffer->bytes() + held, 0, mapping.buffer_bytes - held);
  return true;
}

emu::Buffer* Memory::take_row(Address address) {
  emu::Buffer*& row = row_at(address);
  if (!is_live(row)) {
    const Mapping& mapping = find(address, 0);
    row = pool_->acquire(mapping.size_class);
    std::memset(row->bytes(), 0, mapping.buffer_bytes);
  }
  emu::Buffer* taken = row;
  row = discarded();
  return taken;
}

void Memory::move_row(Address to, Address from) {
  const Mapping& to_mapping = find(to, 0);
  const Mapping& from_mapping = find(from, 0);
  if (to_mapping.row_bytes != from_mapping.row_bytes ||
      to_mapping.buffer_bytes != from_mapping.buffer_bytes) {
    throw emu::InvariantError("a row can only become a row of equal length");
  }
  emu::Buffer*& from_row = row_at(from);
  emu::Buffer*& to_row = row_at(to);
  if (is_live(to_row)) pool_->release(to_row);
  to_row = is_live(from_row) ? from_row : nullptr;
  from_row = discarded();
}

void Memory::not_carried(std::uint64_t into, std::uint64_t bytes) {
  throw emu::InvariantError(
      fmt::format("bytes {} to {} of a row do not exist: this algorithm looks into rows, which "
                  "--payload control does not carry",
                  into, into + bytes));
}

void Memory::out_of_range(Address address, std::uint64_t bytes) const {
  const std::size_t region = address >> Region::kRegionBits;
  if (region >= mappings_.size()) {
    throw emu::InvariantError(
        fmt::format("access to {} bytes at {:#x}: the device has no such region", bytes, address));
  }
  throw emu::InvariantError(
      fmt::format("access to {} bytes at {:#x} leaves its region of {} bytes{}", bytes, address,
                  mappings_[region].bytes,
                  mappings_[region].row_bytes == 0
                      ? ""
                      : fmt::format(" or its row of {}", mappings_[region].row_bytes)));
}

}  // namespace orrery::fabric
