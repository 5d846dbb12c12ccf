// What an algorithm is asked to do: sizes, who owns which expert, and the routing of every
// iteration.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/costs.h"
#include "emu/time.h"
#include "moe/arrivals.h"
#include "moe/expert_placement.h"
#include "moe/experts.h"
#include "moe/routing_table.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

struct Problem {
  const Workload& workload;
  const devices::Costs& costs;
  std::uint32_t devices;
  std::uint32_t token_bound;  // largest token count of any device: what buffers are made for
  std::uint32_t iterations;
  std::uint64_t seed;
  bool control;  // rows are not carried: an identity of each stands for it
  int threads;   // for host arithmetic
  std::uint32_t
      atomic_block_bytes;  // of the fabric: smaller than what an algorithm relies on, or not
  emu::Time latency;  // of the fabric between two devices, mean as fabric::mean_latency() has it
  std::vector<std::uint32_t> nodes;  // by device: the node of the topology that it sits on
  ExpertPlacement placement;
  std::vector<RoutingTable> tables;  // by iteration
  std::vector<Arrivals> arrivals;    // by iteration: the tables seen from the experts
  Experts experts;

  std::uint32_t hidden() const { return workload.hidden(); }
  std::uint32_t top_k() const { return workload.top_k(); }
};

}  // namespace orrery::moe
