// Equal rows at a fixed distance, as an algorithm's window or output holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace orrery::moe {

/// A view of `count` rows of `columns` elements, `stride_bytes` apart. Owns nothing. `first` and
/// the stride must be aligned for T.
template <typename T>
struct StridedRows {
  T* first = nullptr;
  std::size_t stride_bytes = 0;
  std::size_t count = 0;
  std::size_t columns = 0;

  std::span<T> operator[](std::size_t row) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return {reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + row * stride_bytes), columns};
  }
};

}  // namespace orrery::moe
