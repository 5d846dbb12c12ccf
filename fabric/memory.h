// A device's memory: regions of an address space, committed as they are written (design section 4).
//
// A *flat* region is a reserved range of the host's memory. A *row* region is for what is written
// and read in rows, sparsely or for a short time: each row gets a host buffer when it is first
// written and gives it back when it is discarded, so that only live rows cost memory and their
// buffers stay warm. Both read as zero until written. Of the rows of a region that is not carried
// whole, only some bytes exist: to touch others is an error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "emu/buffer_pool.h"
#include "fabric/carried.h"
#include "fabric/packet.h"

namespace orrery::fabric {

/// Region r holds addresses [r << kRegionBits, (r << kRegionBits) + bytes).
struct Region {
  static constexpr int kRegionBits = 40;
  static constexpr Address base(std::size_t region) {
    return static_cast<Address>(region) << kRegionBits;
  }

  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // 0: flat. No access crosses a row's end.
  bool dense = false;           // flat: worth huge pages
  Carried carried{};            // bytes of each row that exist
};

class Memory {
 public:
  /// One flat region of `bytes`.
  explicit Memory(std::uint64_t bytes) : Memory({Region{bytes, 0, false}}, nullptr) {}
  /// `pool` serves the row regions and outlives the memory; it may be null if there are none.
  /// Throws ConfigError if the host's address space cannot hold the regions.
  Memory(const std::vector<Region>& regions, emu::BufferPool* pool);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// `bytes` at `address` for writing: commits the row, the rest of it zero.
  std::span<std::byte> view(Address address, std::uint64_t bytes) {
    Mapping& mapping = find(address, bytes);
    if (writes_ != nullptr) [[unlikely]]
      writes_->emplace_back(address, bytes);
    const std::uint64_t offset = address & kOffsetMask;
    if (mapping.row_bytes == 0) return {mapping.base + offset, bytes};
    emu::Buffer*& row = mapping.rows[offset / mapping.row_bytes];
    if (!is_live(row)) {
      row = pool_->acquire(mapping.size_class);
      std::memset(row->bytes(), 0, mapping.buffer_bytes);
    }
    return {row->bytes() + place(mapping, offset % mapping.row_bytes, bytes), bytes};
  }
  /// Into the cache: where the row at `address` is noted, or the bytes there.
  void prefetch(Address address) const {
    const std::size_t region = address >> Region::kRegionBits;
    if (region >= mappings_.size()) return;
    const Mapping& mapping = mappings_[region];
    const std::uint64_t offset = address & kOffsetMask;
    if (mapping.row_bytes == 0) {
      __builtin_prefetch(mapping.base + offset, 1);
    } else {
      __builtin_prefetch(&mapping.rows[offset / mapping.row_bytes], 1);
    }
  }
  /// For reading: a row that is not committed reads as zeros.
  std::span<const std::byte> view(Address address, std::uint64_t bytes) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, bytes);
    const std::uint64_t offset = address & kOffsetMask;
    if (mapping.row_bytes == 0) return {mapping.base + offset, bytes};
    emu::Buffer* row = mapping.rows[offset / mapping.row_bytes];
    return {(is_live(row) ? row->bytes() : zeros_.data()) +
                place(mapping, offset % mapping.row_bytes, bytes),
            bytes};
  }
  /// Copies `bytes` to `address`. The same as through view(), without zeroing what is overwritten
  /// at once.
  void write(Address address, std::span<const std::byte> bytes) {
    Mapping& mapping = find(address, bytes.size());
    if (writes_ != nullptr) [[unlikely]]
      writes_->emplace_back(address, bytes.size());
    const std::uint64_t offset = address & kOffsetMask;
    std::byte* target = mapping.base + offset;
    if (mapping.row_bytes != 0) {
      target = row_buffer(mapping, offset / mapping.row_bytes,
                          place(mapping, offset % mapping.row_bytes, bytes.size()), bytes.size());
    }
    std::memcpy(target, bytes.data(), bytes.size());
  }

  // --- Bytes on their way: of [address, address + bytes) only those that exist there, one after
  // the other. ---
  /// How many.
  std::uint64_t carried(Address address, std::uint64_t bytes) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, bytes);
    if (mapping.everything) return bytes;
    return mapping.carried.count((address & kOffsetMask) % mapping.row_bytes, bytes);
  }
  /// Writes them.
  void write_carried(Address address, std::uint64_t bytes, const std::byte* from) {
    Mapping& mapping = find(address, bytes);
    if (mapping.everything) {
      write(address, {from, bytes});
      return;
    }
    const std::uint64_t offset = address & kOffsetMask;
    const std::uint64_t into = offset % mapping.row_bytes;
    const std::uint64_t count = mapping.carried.count(into, bytes);
    if (count == 0) return;
    std::memcpy(
        row_buffer(mapping, offset / mapping.row_bytes, mapping.carried.before(into), count), from,
        count);
  }
  /// Calls piece(offset, bytes) for each stretch of them, by its offset from `address`.
  template <typename Piece>
  void for_each_carried(Address address, std::uint64_t bytes, Piece&& piece) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, bytes);
    if (mapping.everything) {
      piece(std::uint64_t{0}, bytes);
      return;
    }
    const std::uint64_t into = (address & kOffsetMask) % mapping.row_bytes;
    for (const Carried::Range& range : mapping.carried.ranges()) {
      const std::uint64_t begin = std::max<std::uint64_t>(range.begin, into);
      const std::uint64_t end = std::min<std::uint64_t>(range.end, into + bytes);
      if (begin < end) piece(begin - into, end - begin);
    }
  }
  /// Copies them from `from`, where the same ones must exist.
  void copy(Address to, Address from, std::uint64_t bytes) {
    for_each_carried(to, bytes, [&](std::uint64_t offset, std::uint64_t count) {
      write(to + offset, std::as_const(*this).view(from + offset, count));
    });
  }

  /// Length of the buffer of the row at `address`, if `bytes` there are the beginning of one; else
  /// 0.
  std::uint64_t row_to_adopt(Address address, std::uint64_t bytes) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, bytes);
    const bool begins = mapping.row_bytes != 0 && (address & kOffsetMask) % mapping.row_bytes == 0;
    return begins ? mapping.buffer_bytes : 0;
  }
  /// Makes `buffer`, which begins with what is carried of `bytes` for the row that begins at
  /// `address`, that row itself if it fits and nobody else refers to it; false if the bytes must be
  /// written instead. Takes over the reference.
  bool adopt(Address address, emu::Buffer* buffer, std::uint64_t bytes);
  /// The row that begins at `address`, taken out: the caller has its reference, and the row is
  /// discarded.
  emu::Buffer* take_row(Address address);
  /// The row at `from` becomes the row at `to`, which must be of equal length; `from` is discarded.
  /// No byte moves.
  void move_row(Address to, Address from);
  /// Gives host memory back: rows that lie wholly in the range, or whole pages of a flat region.
  /// The range reads as zeros afterwards.
  void discard(Address address, std::uint64_t bytes);
  bool has_rows(Address address) const {
    const std::size_t region = address >> Region::kRegionBits;
    return region < mappings_.size() && mappings_[region].row_bytes != 0;
  }
  /// Where the row around `address` begins.
  Address row_begin(Address address) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, 0);
    return address - (address & kOffsetMask) % mapping.row_bytes;
  }
  /// Length of the rows of the region around `address`; 0 if it is flat.
  std::uint64_t row_bytes(Address address) const {
    return const_cast<Memory*>(this)->find(address, 0).row_bytes;
  }
  /// Adds the range of every view for writing and every write to `ranges` from here on; null: no
  /// more.
  void report_writes(std::vector<std::pair<Address, std::uint64_t>>* ranges) { writes_ = ranges; }
  /// True if the address lies in a row that was discarded and not written since.
  bool is_discarded_row(Address address) const {
    const Mapping& mapping = const_cast<Memory*>(this)->find(address, 0);
    return mapping.rows[(address & kOffsetMask) / mapping.row_bytes] == discarded();
  }

  template <typename T>
  T load(Address address) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, view(address, sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <typename T>
  void store(Address address, const T& value) {
    write(address, std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  /// Elements of type T in place; `address` must be aligned for T.
  template <typename T>
  std::span<T> array(Address address, std::uint64_t count) {
    return {reinterpret_cast<T*>(view(address, count * sizeof(T)).data()), count};
  }
  template <typename T>
  std::span<const T> array(Address address, std::uint64_t count) const {
    return {reinterpret_cast<const T*>(view(address, count * sizeof(T)).data()), count};
  }

 private:
  // A row's entry: null before it is first written, discarded() after it was given up.
  static emu::Buffer* discarded() { return reinterpret_cast<emu::Buffer*>(std::uintptr_t{1}); }
  static bool is_live(const emu::Buffer* row) { return reinterpret_cast<std::uintptr_t>(row) > 1; }

  static constexpr Address kOffsetMask = (Address{1} << Region::kRegionBits) - 1;
  struct Mapping {
    std::uint64_t bytes = 0;
    std::uint64_t row_bytes = 0;
    std::uint64_t buffer_bytes = 0;  // of a row: those that exist
    bool everything = true;
    Carried carried;
    std::byte* base = nullptr;     // flat
    emu::Buffer** rows = nullptr;  // by row
    std::uint32_t size_class = 0;
    void* mapped_at = nullptr;  // of base or rows
    std::uint64_t mapped = 0;
  };

  Mapping& find(Address address, std::uint64_t bytes) {
    const std::size_t region = address >> Region::kRegionBits;
    if (region >= mappings_.size()) out_of_range(address, bytes);
    Mapping& mapping = mappings_[region];
    const std::uint64_t offset = address & kOffsetMask;
    if (offset > mapping.bytes || bytes > mapping.bytes - offset) out_of_range(address, bytes);
    if (mapping.row_bytes != 0 && offset % mapping.row_bytes + bytes > mapping.row_bytes) {
      out_of_range(address, bytes);
    }
    return mapping;
  }
  // Where [into, into + bytes) of a row is in its buffer.
  static std::uint64_t place(const Mapping& mapping, std::uint64_t into, std::uint64_t bytes) {
    if (mapping.everything) return into;
    if (mapping.carried.count(into, bytes) != bytes) not_carried(into, bytes);
    return mapping.carried.before(into);
  }
  // For writing [at, at + bytes) of a row's buffer: a new one is zero around that.
  std::byte* row_buffer(Mapping& mapping, std::uint64_t index, std::uint64_t at,
                        std::uint64_t bytes) {
    emu::Buffer*& row = mapping.rows[index];
    if (!is_live(row)) {
      row = pool_->acquire(mapping.size_class);
      std::memset(row->bytes(), 0, at);
      std::memset(row->bytes() + at + bytes, 0, mapping.buffer_bytes - at - bytes);
    }
    return row->bytes() + at;
  }
  [[noreturn]] void out_of_range(Address address, std::uint64_t bytes) const;
  [[noreturn]] static void not_carried(std::uint64_t into, std::uint64_t bytes);

  emu::Buffer*& row_at(Address address);

  emu::BufferPool* pool_;
  std::vector<Mapping> mappings_;
  std::vector<std::pair<Address, std::uint64_t>>* writes_ = nullptr;
  std::vector<std::byte> zeros_;  // as long as the longest row
};

}  // namespace orrery::fabric
