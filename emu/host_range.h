// A reserved range of the host's memory, committed as it is touched, in huge pages where the host
// has them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::emu {

class HostRange {
 public:
  /// Throws std::bad_alloc if the address space cannot be had.
  explicit HostRange(std::uint64_t bytes);
  ~HostRange();
  HostRange(const HostRange&) = delete;
  HostRange& operator=(const HostRange&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return bytes_; }

  /// Commits [offset, offset + bytes), which nobody uses yet, by writing zeros; any thread may do
  /// so.
  void commit(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  void* mapping_;
  std::uint64_t mapped_;
  std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace orrery::emu
