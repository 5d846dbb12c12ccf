// Host memory for bytes in flight and for rows of device memory: counted buffers, recycled by size
// class last in, first out, so that a buffer is warm when it is used again. One pool per process: a
// payload can become a row without a copy.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emu/host_range.h"

namespace orrery::emu {

struct Buffer {
  std::uint32_t references;
  std::uint32_t size_class;
  Buffer* next_free;
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + kHeaderBytes; }
  static constexpr std::size_t kHeaderBytes = 64;  // keeps the bytes on cache lines of their own
};

class BufferPool {
 public:
  /// `spare_core`: a second thread may commit memory ahead of its use, which hides the time that
  /// the host takes to find and clear pages: half of a large run otherwise.
  explicit BufferPool(bool spare_core = false);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// About `bytes` will be needed in all: the helper begins at once and may run so far ahead.
  void expect(std::uint64_t bytes);

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
    if (--buffer->references != 0) return;
    buffer->next_free = free_[buffer->size_class];
    free_[buffer->size_class] = buffer;
  }

  std::uint64_t bytes_reserved() const { return reserved_; }

 private:
  static constexpr std::size_t kClasses = 160;
  class CommitAhead;
  Buffer* allocate(std::uint32_t size_class);
  std::byte* take_block(std::uint64_t bytes);

  const bool spare_core_;
  Buffer* free_[kClasses] = {};
  std::vector<std::unique_ptr<HostRange>> blocks_;
  std::unique_ptr<CommitAhead> ahead_;
  std::byte* cursor_ = nullptr;
  std::uint64_t left_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace orrery::emu
