// The dispatch/combine algorithms that every common test runs, with the settings worth a run of
// their own. A new algorithm is one more line.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {

struct TestedAlgorithm {
  std::string algorithm;
  Settings settings;                      // algorithm.*
  std::uint32_t atomic_block_bytes = 64;  // of the fabric: what it needs

  /// For names of tests: letters, digits and underscores.
  std::string name() const {
    std::string text = algorithm;
    for (const auto& [field, value] : settings) text += "_" + field.substr(10) + "_" + value;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
  }
  /// On a small machine that gives it what it needs.
  RunConfig run(std::uint32_t devices, std::uint32_t cores, const Workload& workload) const {
    RunConfig config = small_run(algorithm, devices, cores, workload);
    config.machine = small_machine(devices, cores, atomic_block_bytes);
    config.settings = settings;
    return config;
  }
};
inline void PrintTo(const TestedAlgorithm& tested, std::ostream* out) { *out << tested.name(); }

inline std::vector<TestedAlgorithm> tested_algorithms() {
  return {
      {"cann-bsp", {}},
  };
}

}  // namespace orrery::moe
