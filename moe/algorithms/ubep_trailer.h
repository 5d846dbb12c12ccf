// What follows a row's payload on UBEP's wire.
#pragma once

#include <cstdint>

#include "moe/arrivals.h"

namespace orrery::moe::ubep {

struct Trailer {
  float scale = 0;
  RowTag tag{};
  /// SP: first word of a tail that stands for the sentinel; 0: none does.
  std::uint32_t stand_in = 0;
  std::uint32_t round = 0;     // never 0
  std::uint64_t checksum = 0;  // DC
};
static_assert(sizeof(Trailer) == 32);

}  // namespace orrery::moe::ubep
