// A device's memory: a large reserved range, committed as touched (design section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "fabric/packet.h"

namespace orrery::fabric {

class Memory {
 public:
  /// Reserves `bytes` (all zero until written); costs nothing until touched. Throws ConfigError if the
  /// host's address space cannot hold it.
  explicit Memory(std::uint64_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t size() const { return size_; }

  /// Asks the host for huge pages in a range that will be written densely.
  void expect_dense(Address address, std::uint64_t bytes);
  /// Gives the whole pages of a range back to the host; they read as zero afterwards.
  void release_pages(Address address, std::uint64_t bytes);
  /// Bytes of this memory that the host holds for it now.
  std::uint64_t resident_bytes() const;

  std::span<std::byte> view(Address address, std::uint64_t bytes) {
    check(address, bytes);
    return {base_ + address, bytes};
  }
  std::span<const std::byte> view(Address address, std::uint64_t bytes) const {
    check(address, bytes);
    return {base_ + address, bytes};
  }
  template <typename T>
  T load(Address address) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, view(address, sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <typename T>
  void store(Address address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(view(address, sizeof(T)).data(), &value, sizeof(T));
  }
  /// Elements of type T in place; `address` must be aligned for T.
  template <typename T>
  std::span<T> array(Address address, std::uint64_t count) {
    return {reinterpret_cast<T*>(view(address, count * sizeof(T)).data()), count};
  }

 private:
  void check(Address address, std::uint64_t bytes) const {
    if (address > size_ || bytes > size_ - address) out_of_range(address, bytes);
  }
  [[noreturn]] void out_of_range(Address address, std::uint64_t bytes) const;

  std::byte* base_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace orrery::fabric
