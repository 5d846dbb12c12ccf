#include "emu/transports/mapped_memory.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "emu/errors.h"

namespace orrery::emu {

MappedMemory::MappedMemory(std::size_t bytes) {
  if (bytes == 0) return;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw TransportError("cannot map " + std::to_string(bytes) + " bytes of landing memory");
  }
  bytes_ = {static_cast<std::byte*>(address), bytes};
}

MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace orrery::emu
