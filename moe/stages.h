// What an iteration runs on each device and what of it is measured: the algorithm's operations, a
// whole layer, or a layer of a whole model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/kernel_range.h"
#include "moe/algorithm.h"

namespace orrery::moe {

/// A kernel of an iteration.
struct Stage {
  enum class Kind : std::uint8_t { kOperation, kHead, kDenseLayer, kAttention, kGate, kShared };

  std::string name;
  Kind kind = Kind::kOperation;
  std::uint32_t operation = 0;  // of the algorithm
  bool once = false;            // in the first iteration alone
};

/// What is measured as one: stages by their numbers.
struct Span {
  std::string name;
  devices::KernelRange stages;
};

class Stages {
 public:
  /// Those up to and including `operation`, all if it is empty. "layer", which any algorithm with
  /// a gate has: the gate and all operations, measured each and together; of an algorithm whose
  /// layer is one kernel, that is called "kernel" then. "model": the same with a layer's attention
  /// before it and, where no operation has them, the shared experts; and ahead of the first
  /// iteration, once, the head and a layer without experts. Throws ConfigError for other names, and
  /// for a model of which the workload says too little.
  Stages(const Problem& problem, Algorithm& algorithm, const std::string& operation);

  const std::vector<Stage>& stages() const { return stages_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(stages_.size()); }
  /// Each stage alone, then what is measured as one.
  const std::vector<Span>& spans() const { return spans_; }
  bool whole_layer() const { return spans_.size() > stages_.size(); }
  bool whole_model() const { return whole_layer() && stages_.front().once; }
  /// The number of the first stage that every iteration has.
  std::uint32_t first_of_layer() const;
  /// Whether the iteration has all of a range's stages.
  bool in_iteration(devices::KernelRange range, std::uint32_t iteration) const {
    return iteration == 0 || !stages_[range.first].once;
  }

  // --- Of stage `index`, as the algorithm has it ---
  std::uint32_t cores(std::uint32_t index, std::uint32_t iteration) const;
  emu::Task program(devices::Core& core, std::uint32_t index, std::uint32_t iteration) const;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t index,
                 std::uint32_t iteration) const;
  /// Of all stages of a span.
  std::uint64_t useful_bytes(const Span& span, std::uint32_t iteration) const;

 private:
  const Problem& problem_;
  Algorithm& algorithm_;
  std::vector<Stage> stages_;
  std::vector<Span> spans_;
};

}  // namespace orrery::moe
