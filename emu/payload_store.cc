#include "emu/payload_store.h"

#include <algorithm>
#include <cstring>

#include "emu/errors.h"

namespace orrery::emu {

Buffer* PayloadStore::capture(std::span<const std::byte> bytes, std::uint64_t capacity) {
  Buffer* buffer =
      pool_.acquire(BufferPool::class_of(std::max<std::uint64_t>(bytes.size(), capacity)));
  if (!bytes.empty()) std::memcpy(buffer->bytes(), bytes.data(), bytes.size());
  return buffer;
}

void PayloadStore::arrived(std::size_t lane, std::uint64_t number,
                           std::span<const std::byte> bytes) {
  Arrivals& from = arrivals_[lane];
  if (number != from.first + from.count) throw InvariantError("payload arrived out of order");
  if (from.count == from.ring.size()) {
    std::vector<Buffer*> larger(std::max<std::size_t>(64, from.ring.size() * 2));
    for (std::size_t i = 0; i < from.count; ++i) {
      larger[i] = from.ring[(from.head + i) % from.ring.size()];
    }
    from.ring.swap(larger);
    from.head = 0;
  }
  from.ring[(from.head + from.count) % from.ring.size()] = capture(bytes);
  ++from.count;
}

Buffer* PayloadStore::take(std::size_t lane, std::uint64_t number) {
  Arrivals& from = arrivals_[lane];
  if (number < from.first || number >= from.first + from.count) {
    throw InvariantError("payload is not here: its descriptor overtook it");
  }
  const std::size_t mask = from.ring.size() - 1;
  Buffer*& entry = from.ring[(from.head + static_cast<std::size_t>(number - from.first)) & mask];
  Buffer* buffer = entry;
  entry = nullptr;
  while (from.count > 0 && from.ring[from.head] == nullptr) {
    from.head = (from.head + 1) & mask;
    --from.count;
    ++from.first;
  }
  return buffer;
}

}  // namespace orrery::emu
