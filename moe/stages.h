// What an iteration runs on each device and what of it is measured: the algorithm's operations, or
// a whole layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/kernel_range.h"
#include "moe/algorithm.h"

namespace orrery::moe {

/// A kernel of an iteration.
struct Stage {
  static constexpr std::uint32_t kGate = ~std::uint32_t{0};

  std::string name;
  std::uint32_t operation = 0;  // of the algorithm, or kGate
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
  /// layer is one kernel, that is called "kernel" then. Throws ConfigError for other names.
  Stages(Algorithm& algorithm, const std::string& operation);

  const std::vector<Stage>& stages() const { return stages_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(stages_.size()); }
  /// Each stage alone, then what is measured as one.
  const std::vector<Span>& spans() const { return spans_; }
  bool whole_layer() const { return spans_.size() > stages_.size(); }

  // --- Of stage `index`, as the algorithm has it ---
  std::uint32_t cores(std::uint32_t index, std::uint32_t iteration) const;
  emu::Task program(devices::Core& core, std::uint32_t index, std::uint32_t iteration) const;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t index,
                 std::uint32_t iteration) const;
  /// Of all stages of a span.
  std::uint64_t useful_bytes(const Span& span, std::uint32_t iteration) const;

 private:
  Algorithm& algorithm_;
  std::vector<Stage> stages_;
  std::vector<Span> spans_;
};

}  // namespace orrery::moe
