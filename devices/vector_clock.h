// What a core knows of all others: of each, the latest step that happened before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "devices/shadow_memory.h"

namespace orrery::devices {

/// A moment and all that happened before it. Copies share what they know until one learns more.
class Knowledge {
 public:
  Knowledge() = default;
  Knowledge(std::uint32_t core, const std::shared_ptr<std::vector<std::uint32_t>>& others)
      : moment_{core, 1}, others_(others) {}

  const Moment& moment() const { return moment_; }
  /// The latest step of `core` that happened before, or is, this moment; 0: none.
  std::uint32_t of(std::uint32_t core) const {
    return core == moment_.core ? moment_.epoch : (*others_)[core];
  }
  bool knows(const Moment& moment) const { return of(moment.core) >= moment.epoch; }

  /// The core's next step.
  void step() { ++moment_.epoch; }
  /// What happened before `other`, and that moment itself, happened before from here on.
  void learn(const Knowledge& other) {
    if (knows(other.moment_)) return;  // and so all that it knew
    if (others_.use_count() > 1) {
      others_ = std::make_shared<std::vector<std::uint32_t>>(*others_);
    }
    for (std::size_t core = 0; core < others_->size(); ++core) {
      (*others_)[core] = std::max((*others_)[core], (*other.others_)[core]);
    }
    (*others_)[other.moment_.core] = std::max((*others_)[other.moment_.core], other.moment_.epoch);
  }
  /// All of them meet: each knows what any of them knew.
  static void meet(std::span<Knowledge* const> all) {
    auto merged = std::make_shared<std::vector<std::uint32_t>>(*all.front()->others_);
    for (const Knowledge* each : all) {
      for (std::size_t core = 0; each->others_ != all.front()->others_ && core < merged->size();
           ++core) {
        (*merged)[core] = std::max((*merged)[core], (*each->others_)[core]);
      }
    }
    for (const Knowledge* each : all) {
      std::uint32_t& own = (*merged)[each->moment_.core];
      own = std::max(own, each->moment_.epoch);
    }
    for (Knowledge* each : all) {
      each->others_ = merged;
      each->step();
    }
  }

 private:
  Moment moment_;
  std::shared_ptr<std::vector<std::uint32_t>> others_;  // by core; the own entry means nothing
};

}  // namespace orrery::devices
