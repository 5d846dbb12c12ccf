#include "emu/payload_store.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/errors.h"

namespace orrery::emu {

namespace {
constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kSmallest = 64;
}  // namespace

PayloadStore::Buffer* PayloadStore::allocate(std::uint32_t size_class) {
  const std::size_t bytes = sizeof(Buffer) + (kSmallest << size_class);
  if (bytes > left_) {
    const std::size_t block = std::max(kBlockBytes, bytes);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    cursor_ = blocks_.back().get();
    left_ = block;
    reserved_ += block;
  }
  auto* buffer = reinterpret_cast<Buffer*>(cursor_);
  cursor_ += bytes;
  left_ -= bytes;
  buffer->size_class = size_class;
  return buffer;
}

PayloadStore::Buffer* PayloadStore::capture(std::span<const std::byte> bytes) {
  const std::size_t units = (std::max<std::size_t>(bytes.size(), 1) + kSmallest - 1) / kSmallest;
  const auto size_class = static_cast<std::uint32_t>(std::bit_width(units - 1));
  Buffer* buffer = free_[size_class];
  if (buffer != nullptr) {
    free_[size_class] = buffer->next_free;
  } else {
    buffer = allocate(size_class);
  }
  buffer->references = 1;
  if (!bytes.empty()) std::memcpy(buffer->bytes(), bytes.data(), bytes.size());
  return buffer;
}

void PayloadStore::arrived(int process, std::uint64_t number, std::span<const std::byte> bytes) {
  Arrivals& from = arrivals_[static_cast<std::size_t>(process)];
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

PayloadStore::Buffer* PayloadStore::take(int process, std::uint64_t number) {
  Arrivals& from = arrivals_[static_cast<std::size_t>(process)];
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
