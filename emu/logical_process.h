// A logical process: a device or a switch. Touches its own state alone (R2).
#pragma once

#include <cstddef>

#include "emu/event.h"

namespace orrery::emu {

/// Fetches `bytes` at `from` into the cache, if memory is there.
inline void prefetch_bytes(const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto* at = static_cast<const char*>(from);
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + line, 1);
}

class LogicalProcess {
 public:
  virtual ~LogicalProcess() = default;
  /// Executes one event at virtual time event.time. The event's memory is recycled on return.
  virtual void handle(const Event& event) = 0;
  /// Events that will soon be executed one after the other are announced all together, so that
  /// their cache misses overlap: fetches what handle() will touch first (step 0), and what can be
  /// found only through that (step 1). Changes nothing.
  virtual void prefetch(const Event& /*event*/, int /*step*/) const {}
};

}  // namespace orrery::emu
