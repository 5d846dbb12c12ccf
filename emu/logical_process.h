// A logical process: a device or a switch. Touches its own state alone (R2).
#pragma once

#include "emu/event.h"

namespace orrery::emu {

class LogicalProcess {
 public:
  virtual ~LogicalProcess() = default;
  /// Executes one event at virtual time event.time. The event's memory is recycled on return.
  virtual void handle(const Event& event) = 0;
};

}  // namespace orrery::emu
