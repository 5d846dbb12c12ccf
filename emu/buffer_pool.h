// Host memory for bytes in flight and for rows of device memory: counted buffers, recycled by size
// class last in, first out, so that a buffer is warm when it is used again. One pool per shard of
// an engine, all of one family: a payload can become a row of any shard without a copy, and goes
// home when it is free.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "emu/host_range.h"

namespace orrery::emu {

struct Buffer {
  alignas(8) std::uint32_t references;  // changed by any thread
  std::uint32_t size_class;
  std::uint32_t home;  // index of the pool that made it
  Buffer* next_free;

  /// One reference more.
  void retain() {
    std::atomic_ref<std::uint32_t>(references).fetch_add(1, std::memory_order_relaxed);
  }
  /// Nobody else refers to it, so nobody else can begin to.
  bool is_unshared() {
    return std::atomic_ref<std::uint32_t>(references).load(std::memory_order_acquire) == 1;
  }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + kHeaderBytes; }
  static constexpr std::size_t kHeaderBytes = 64;  // keeps the bytes on cache lines of their own
};

/// Blocks of memory for the pools of one family.
class BlockSource {
 public:
  static constexpr std::uint64_t kBlock = 32 << 20;

  /// `spare_core`: a second thread may commit memory ahead of its use, which hides the time that
  /// the host takes to find and clear pages: half of a large run otherwise.
  explicit BlockSource(bool spare_core = false);
  ~BlockSource();
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;

  /// About `bytes` will be needed in all: the helper begins at once and may run so far ahead.
  void expect(std::uint64_t bytes);
  /// `bytes` that stay until the source ends. Any thread.
  std::byte* take(std::uint64_t bytes);

 private:
  class CommitAhead;
  std::byte* take_block(std::uint64_t bytes);

  const bool spare_core_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HostRange>> blocks_;
  std::unique_ptr<CommitAhead> ahead_;
  std::byte* cursor_ = nullptr;
  std::uint64_t left_ = 0;
};

class BufferPool {
 public:
  /// Pool `index` of a family of `pools`.
  BufferPool(int index, int pools, BlockSource& blocks);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Four classes per power of two: at most a quarter of a buffer is unused.
  static constexpr std::uint32_t class_of(std::uint64_t bytes) {
    const std::uint64_t lines = bytes <= 256 ? 4 : (bytes + 63) / 64;
    const auto power =
        static_cast<std::uint32_t>(std::bit_width(lines - 1)) - 1;  // lines > 2^power
    const std::uint64_t quarter = (std::uint64_t{1} << power) / 4;
    const std::uint64_t step = lines == (std::uint64_t{1} << (power + 1)) ? 4
                               : quarter == 0
                                   ? 4
                                   : (lines - (std::uint64_t{1} << power) + quarter - 1) / quarter;
    return power * 4 + static_cast<std::uint32_t>(step);
  }
  static constexpr std::uint64_t capacity_of(std::uint32_t size_class) {
    const std::uint32_t power = (size_class - 1) / 4;
    const std::uint32_t step = (size_class - 1) % 4 + 1;
    return ((std::uint64_t{1} << power) + step * (std::uint64_t{1} << power) / 4) * 64;
  }

  /// One reference; the contents are what the last user left.
  Buffer* acquire(std::uint32_t size_class) {
    Buffer* buffer = free_[size_class];
    if (buffer != nullptr) {
      free_[size_class] = buffer->next_free;
    } else {
      buffer = allocate(size_class);
    }
    buffer->references = 1;
    return buffer;
  }
  void release(Buffer* buffer) {
    if (!buffer->is_unshared() && std::atomic_ref<std::uint32_t>(buffer->references)
                                          .fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return;
    }
    if (buffer->home != index_) {
      Buffer*& list = returned_[filling_][buffer->home];
      returned_to_ |= std::uint64_t{1} << buffer->home;
      buffer->next_free = list;
      list = buffer;
      return;
    }
    recycle(buffer);
  }

  /// Free buffers of other pools go to lists that these empty one window later: list 0 or 1.
  void fill(std::size_t list) { filling_ = list; }
  /// The pools, a bit each (of at most 64), to whose lists something came since the last call.
  std::uint64_t returned_to() { return std::exchange(returned_to_, 0); }
  /// Takes this pool's own buffers from `other`'s list.
  void take_back(BufferPool& other, std::size_t list) {
    Buffer* buffer = std::exchange(other.returned_[list][index_], nullptr);
    while (buffer != nullptr) recycle(std::exchange(buffer, buffer->next_free));
  }

  std::uint64_t bytes_reserved() const { return reserved_; }

 private:
  static constexpr std::size_t kClasses = 160;
  Buffer* allocate(std::uint32_t size_class);
  void recycle(Buffer* buffer) {
    buffer->next_free = free_[buffer->size_class];
    free_[buffer->size_class] = buffer;
  }

  const std::uint32_t index_;
  const std::uint64_t block_bytes_;
  BlockSource& source_;
  Buffer* free_[kClasses] = {};
  std::array<std::vector<Buffer*>, 2> returned_;  // by home
  std::size_t filling_ = 0;
  std::uint64_t returned_to_ = 0;
  std::byte* cursor_ = nullptr;
  std::uint64_t left_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace orrery::emu
