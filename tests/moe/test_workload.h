// Workloads that tests start from.
#pragma once

#include <cstdint>

#include "moe/workload.pb.h"

namespace orrery::moe {

inline Workload make_workload(std::uint32_t experts, std::uint32_t top_k, std::uint32_t tokens,
                              std::uint32_t hidden = 64, std::uint32_t intermediate = 32) {
  Workload workload;
  workload.set_name("test");
  workload.set_hidden(hidden);
  workload.set_expert_intermediate(intermediate);
  workload.set_experts(experts);
  workload.set_top_k(top_k);
  workload.set_tokens(tokens);
  return workload;
}

}  // namespace orrery::moe
