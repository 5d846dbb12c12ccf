// Checks that all transports share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emu/errors.h"

namespace orrery::emu {

/// Throws InvariantError unless `bytes` at `offset` lie inside the landing memory (`landing_bytes`)
/// of `peer`.
inline void check_put(int peer, std::uint64_t offset, std::size_t bytes,
                      std::uint64_t landing_bytes) {
  if (offset <= landing_bytes && bytes <= landing_bytes - offset) return;
  throw InvariantError("put of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                       " does not fit the " + std::to_string(landing_bytes) +
                       " bytes that process " + std::to_string(peer) + " exposes");
}

}  // namespace orrery::emu
