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
  // A device ends a call by telling every other one, which hears of it in the next call.
  bool tells_next_call = false;
  bool has_credits = false;     // the last ones of a call are of use to the next call alone
  bool sums_in_groups = false;  // rounds the sum of a device's rows, or a node's: other outputs

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
      {"sgl-normal", {}},
      {"sgl-normal", {{"algorithm.per_round_tokens", "2"}}},
      {"tutel-2dh", {}},
      {"tutel-2dh", {{"algorithm.group", "2"}, {"algorithm.message_parts", "2"}}},
      {"tutel-2dh", {{"algorithm.capacity_factor", "1"}}},
      {"deepep-ll", {}},
      {"deepep-ll", {{"algorithm.release", "trust-order"}, {"algorithm.hook", "true"}}},
      {"pplx", {}, 64, true},
      {"pplx", {{"algorithm.split", "true"}, {"algorithm.quantise", "bf16"}}, 64, true},
      {"pplx-garden", {}, 64, true},
      {"pplx-garden", {{"algorithm.max_private_tokens", "2"}}, 64, true},
      {"deepep-v2", {}, 64, false, false, true},
      {"deepep-v2",
       {{"algorithm.group", "2"},
        {"algorithm.quantise", "int8"},
        {"algorithm.epilogue", "deferred"}},
       64,
       false,
       false,
       true},
      {"deepep-v2",
       {{"algorithm.group", "2"},
        {"algorithm.allow_multiple_reduction", "false"},
        {"algorithm.sms", "2"}}},
      {"hybrid-ep", {}, 64, false, false, true},
      {"hybrid-ep",
       {{"algorithm.group", "2"}, {"algorithm.quantise", "int8"}},
       64,
       false,
       false,
       true},
      {"deepep-normal",
       {{"algorithm.group", "1"}, {"algorithm.queue_tokens", "9"}},
       64,
       false,
       true,
       true},
      {"deepep-normal",
       {{"algorithm.group", "2"},
        {"algorithm.quantise", "int8"},
        {"algorithm.chunk", "2"},
        {"algorithm.queue_tokens", "3"},
        {"algorithm.far_chunk", "3"},
        {"algorithm.far_queue_tokens", "4"}},
       64,
       false,
       true,
       true},
      {"triton-a2a", {}},
      {"triton-a2a", {{"algorithm.release", "trust-order"}}},
      {"triton-a2a",
       {{"algorithm.signaling", "decoupled"},
        {"algorithm.group", "2"},
        {"algorithm.quantise", "bf16"}}},
      {"triton-a2a", {{"algorithm.version", "v2"}}},
      {"triton-a2a",
       {{"algorithm.version", "v2"},
        {"algorithm.signaling", "reordered"},
        {"algorithm.release", "trust-order"}}},
      {"mori", {}, 64, false, false, true},
      {"mori", {{"algorithm.quantise", "int8"}}, 64, false, false, true},
      {"trtllm-onesided", {}, 64, false, false, true},
      {"trtllm-onesided", {{"algorithm.quantise", "nvfp4"}}, 64, false, false, true},
      {"trtllm-twosided", {}, 128, false, true, true},
      {"trtllm-twosided",
       {{"algorithm.quantise", "nvfp4"},
        {"algorithm.channels", "2"},
        {"algorithm.fifo_entries", "1"},
        {"algorithm.entry_bytes", "512"},
        {"algorithm.do_reduce", "false"}},
       128,
       false,
       true,
       true},
      {"nccl-bsp", {}},
      {"nccl-bsp",
       {{"algorithm.quantise", "int8"}, {"algorithm.channels", "3"}, {"algorithm.probs", "true"}}},
      {"megatron-a2a", {}},
      {"megatron-a2a", {{"algorithm.capacity_factor", "1"}, {"algorithm.drop_and_pad", "true"}}},
      {"ubep", {}, 512},
      {"ubep", {{"algorithm.schedule", "expert-major"}}, 512},
      {"ubep", {{"algorithm.flag", "tff"}, {"algorithm.block_bytes", "64"}}, 64},
      {"ubep", {{"algorithm.flag", "sp"}, {"algorithm.schedule", "entry-cyclic"}}, 512},
      {"ubep", {{"algorithm.flag", "dc"}, {"algorithm.schedule", "hop-aware"}}, 8},
      {"ubep", {{"algorithm.flag", "stop-and-wait"}, {"algorithm.schedule", "balanced"}}, 8},
      {"ubep", {{"algorithm.flag", "fence"}, {"algorithm.schedule", "random"}}, 8},
  };
}

}  // namespace orrery::moe
