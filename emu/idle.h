// How a process waits on the host (design rule R5): it spins for a moment, then yields its core.
#pragma once

#include <sched.h>

namespace orrery::emu {

/// Call pause() once per round of a waiting loop that makes progress itself, reset() when the wait
/// is over.
class Idle {
 public:
  explicit Idle(bool oversubscribed) : spins_(oversubscribed ? 4 : 2000) {}
  void reset() { rounds_ = 0; }
  void pause() {
    if (rounds_ < spins_) {
      ++rounds_;
    } else {
      sched_yield();
    }
  }

 private:
  int spins_;
  int rounds_ = 0;
};

}  // namespace orrery::emu
