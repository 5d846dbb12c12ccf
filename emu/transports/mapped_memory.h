// Page-aligned memory, zero and committed as touched.
#pragma once

#include <cstddef>
#include <span>

namespace orrery::emu {

class MappedMemory {
 public:
  MappedMemory() = default;
  /// Throws TransportError if the host refuses.
  explicit MappedMemory(std::size_t bytes);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace orrery::emu
