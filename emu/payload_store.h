// Payload in flight: bytes captured when they leave their source, held until they become visible.
//
// A reference is a buffer of this process, or the number that the sending process gave to a payload
// for another one; only the destination turns it into bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emu/buffer_pool.h"

namespace orrery::emu {

class PayloadStore {
 public:
  /// `lanes`: number of senders elsewhere whose payloads are counted.
  PayloadStore(BufferPool& pool, std::size_t lanes) : pool_(pool), arrivals_(lanes) {}

  /// A buffer with one reference that holds a copy of `bytes`, of a class that holds `capacity` (if
  /// more).
  Buffer* capture(std::span<const std::byte> bytes, std::uint64_t capacity = 0);

  /// Keeps the `number`-th payload of `lane` until take().
  void arrived(std::size_t lane, std::uint64_t number, std::span<const std::byte> bytes);
  /// Gives out that payload, once.
  Buffer* take(std::size_t lane, std::uint64_t number);

 private:
  struct Arrivals {
    std::uint64_t first = 0;  // number of ring[head]
    std::size_t head = 0;
    std::size_t count = 0;
    std::vector<Buffer*> ring;
  };

  BufferPool& pool_;
  std::vector<Arrivals> arrivals_;
};

}  // namespace orrery::emu
