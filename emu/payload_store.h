// Payload in flight: bytes captured when they leave their source, held until they become visible.
//
// Buffers of one process are recycled by size class. A reference is a buffer of this process, or the number
// that the sending process gave to a payload for another one; only the destination turns it into bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orrery::emu {

class PayloadStore {
 public:
  /// `processes`: number of processes that may send here.
  explicit PayloadStore(int processes) : arrivals_(static_cast<std::size_t>(processes)) {}

  struct Buffer {
    std::uint32_t references;
    std::uint32_t size_class;
    Buffer* next_free;
    std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  };

  /// A buffer with one reference that holds a copy of `bytes`.
  Buffer* capture(std::span<const std::byte> bytes);
  void add_reference(Buffer* buffer) { ++buffer->references; }
  void release(Buffer* buffer) {
    if (--buffer->references != 0) return;
    buffer->next_free = free_[buffer->size_class];
    free_[buffer->size_class] = buffer;
  }

  /// Keeps the `number`-th payload of `process` until take().
  void arrived(int process, std::uint64_t number, std::span<const std::byte> bytes);
  /// Gives out that payload, once.
  Buffer* take(int process, std::uint64_t number);

  std::uint64_t bytes_reserved() const { return reserved_; }

 private:
  static constexpr std::size_t kClasses = 40;
  struct Arrivals {
    std::uint64_t first = 0;  // number of ring[head]
    std::size_t head = 0;
    std::size_t count = 0;
    std::vector<Buffer*> ring;
  };

  Buffer* allocate(std::uint32_t size_class);

  Buffer* free_[kClasses] = {};
  std::vector<Arrivals> arrivals_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* cursor_ = nullptr;
  std::size_t left_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace orrery::emu
