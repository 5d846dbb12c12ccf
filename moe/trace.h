// Recorded routing, as JSON lines (workloads/README.md describes the format).
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "moe/workload.pb.h"

namespace orrery::moe {

/// The routes of one layer of a recording, in file order. Read line by line: only the chosen layer
/// is kept, so a recording of all layers may be far larger than memory.
class Trace {
 public:
  /// Reads workload.gate.trace_file for the workload's experts, top_k and gate.trace_layer. Throws
  /// ConfigError with file:line, field, value and expectation.
  static Trace load(const Workload& workload);
  /// The same from a stream; `name` stands for the file in errors.
  static Trace read(std::istream& in, const std::string& name, const Workload& workload);

  std::uint32_t experts() const { return experts_; }
  std::uint32_t top_k() const { return top_k_; }
  /// At least 1.
  std::uint64_t tokens() const { return ids_.size() / top_k_; }
  std::span<const std::int32_t> ids(std::uint64_t token) const {
    return {ids_.data() + token * top_k_, top_k_};
  }
  std::span<const float> weights(std::uint64_t token) const {
    return {weights_.data() + token * top_k_, top_k_};
  }
  /// A run that needs `needed_tokens` in all its iterations sees some tokens of this trace again.
  bool repeats(std::uint64_t needed_tokens) const { return needed_tokens > tokens(); }

 private:
  Trace(std::uint32_t experts, std::uint32_t top_k) : experts_(experts), top_k_(top_k) {}

  std::uint32_t experts_;
  std::uint32_t top_k_;
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
};

}  // namespace orrery::moe
