// The critical path of an operation: from the slowest device's last core backwards to the start of
// that device's first kernel, through whatever each wait waited for (design section 9). Its parts
// sum to the latency exactly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "devices/cluster.h"
#include "devices/kernel_range.h"
#include "emu/time.h"

namespace orrery::devices {

/// One stretch of the path, in order of time when listed; plain data, sent between processes.
struct PathStep {
  std::uint32_t rank;  // whose core the path is on; for a packet on its way: the receiver
  std::uint32_t core;
  std::uint32_t part;    // index into part_names()
  std::uint32_t source;  // for a packet on its way: the device that sent it; else rank
  emu::Time from;
  emu::Time to;
  // A stretch of a put's journey: who issued it, when, and from when and for which part the core
  // waited for it.
  std::uint32_t peer = kNobody;
  std::uint32_t peer_core = 0;
  std::uint32_t waiting = 0;  // index into part_names()
  emu::Time issued = 0;
  emu::Time since = 0;
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
};

struct CriticalPath {
  std::uint32_t rank = 0;        // the slowest device
  std::vector<emu::Time> parts;  // one per part_names()
  std::vector<PathStep> steps;   // latest last; on process 0 alone; the last kMaxSteps of them
  static constexpr std::size_t kMaxSteps = 20000;
};

/// Names of the parts a path is made of: launch, issue, serialisation, queueing_<link class> …
std::vector<std::string> part_names(const fabric::Topology& topology);

/// Collective. The path through `kernels` of an iteration; every device must have their records.
CriticalPath critical_path(Cluster& cluster, KernelRange kernels, std::uint32_t iteration);

}  // namespace orrery::devices
