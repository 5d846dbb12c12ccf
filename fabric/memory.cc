#include "fabric/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "emu/errors.h"

namespace orrery::fabric {

namespace {
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

Memory::Memory(const std::vector<Region>& regions, RowPool* pool) {
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
      // Advice only: where the host has no huge pages the region stays as it is.
      if (region.dense) madvise(mapping.base, mapping.mapped, MADV_HUGEPAGE);
    } else {
      const std::uint64_t rows = (region.bytes + region.row_bytes - 1) / region.row_bytes;
      mapping.mapped = round_up(std::max<std::uint64_t>(rows, 1) * sizeof(std::byte*), page_size());
      mapping.rows = reinterpret_cast<std::byte**>(reserve(mapping.mapped));
      mapping.buffers = &pool->of_size(region.row_bytes);
      longest_row = std::max(longest_row, region.row_bytes);
    }
    mappings_.push_back(mapping);
  }
  zeros_.resize(longest_row);
}

Memory::~Memory() {
  // Rows belong to the pool, which outlives this memory and gives all of them back at its own end.
  for (const Mapping& mapping : mappings_) {
    void* base = mapping.row_bytes == 0 ? static_cast<void*>(mapping.base) : mapping.rows;
    munmap(base, mapping.mapped);
  }
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
    if (is_live(mapping.rows[row])) mapping.buffers->release(mapping.rows[row]);
    mapping.rows[row] = discarded();
  }
}

void Memory::move_row(Address to, Address from) {
  Mapping& source = find(from, 0);
  Mapping& target = find(to, 0);
  const std::uint64_t from_offset = from & kOffsetMask;
  const std::uint64_t to_offset = to & kOffsetMask;
  if (source.row_bytes == 0 || source.row_bytes != target.row_bytes ||
      from_offset % source.row_bytes != 0 || to_offset % target.row_bytes != 0) {
    throw emu::InvariantError("only a whole row can become another row");
  }
  std::byte*& from_row = source.rows[from_offset / source.row_bytes];
  std::byte*& to_row = target.rows[to_offset / target.row_bytes];
  if (is_live(to_row)) target.buffers->release(to_row);
  to_row = is_live(from_row) ? from_row : nullptr;
  from_row = discarded();
}

void Memory::out_of_range(Address address, std::uint64_t bytes) const {
  const std::size_t region = address >> Region::kRegionBits;
  if (region >= mappings_.size()) {
    throw emu::InvariantError(fmt::format("access to {} bytes at {:#x}: the device has no such region",
                                          bytes, address));
  }
  throw emu::InvariantError(fmt::format(
      "access to {} bytes at {:#x} leaves its region of {} bytes{}", bytes, address,
      mappings_[region].bytes,
      mappings_[region].row_bytes == 0 ? "" : fmt::format(" or its row of {}", mappings_[region].row_bytes)));
}

}  // namespace orrery::fabric
