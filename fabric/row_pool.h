// Host memory for rows of device memory: buffers of equal size, recycled last in, first out, so that a row's
// memory is warm when the next row takes it. Shared by the devices of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace orrery::fabric {

class RowPool {
 public:
  RowPool() = default;
  ~RowPool();
  RowPool(const RowPool&) = delete;
  RowPool& operator=(const RowPool&) = delete;

  /// The list of buffers of `bytes` (rounded up to cache lines); stays valid as long as the pool.
  class Sizes;
  Sizes& of_size(std::uint64_t bytes);

  /// Host memory taken so far.
  std::uint64_t reserved_bytes() const { return reserved_; }

 private:
  struct Block {
    std::byte* base;
    std::size_t bytes;
  };
  std::byte* take_block(std::size_t bytes);

  std::map<std::uint64_t, Sizes> sizes_;
  std::vector<Block> blocks_;
  std::uint64_t reserved_ = 0;
};

class RowPool::Sizes {
 public:
  Sizes(RowPool& pool, std::uint64_t bytes) : pool_(pool), bytes_(bytes) {}

  /// A buffer with the contents that its last user left.
  std::byte* acquire() {
    if (free_ != nullptr) {
      std::byte* buffer = free_;
      free_ = *reinterpret_cast<std::byte**>(buffer);
      return buffer;
    }
    if (left_ < bytes_) grow();
    std::byte* buffer = cursor_;
    cursor_ += bytes_;
    left_ -= bytes_;
    return buffer;
  }
  void release(std::byte* buffer) {
    *reinterpret_cast<std::byte**>(buffer) = free_;
    free_ = buffer;
  }

 private:
  void grow();

  RowPool& pool_;
  const std::uint64_t bytes_;
  std::byte* free_ = nullptr;
  std::byte* cursor_ = nullptr;
  std::uint64_t left_ = 0;
};

}  // namespace orrery::fabric
