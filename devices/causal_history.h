// The causal graph of a whole run, from what all its processes logged (fabric/causal_log.h).
#pragma once

#include <cstdint>
#include <vector>

#include "devices/alignment.h"
#include "devices/causal_graph.h"
#include "devices/cluster.h"
#include "devices/kernel_range.h"
#include "emu/time.h"

namespace orrery::devices {

/// A kernel of one device in the graph.
struct KernelPoints {
  std::uint32_t operation = 0;
  std::uint32_t iteration = 0;
  std::uint32_t rank = 0;
  PointId start = 0;
  PointId end = 0;
};

/// A put, found by who began to issue it and when.
struct PutRecord {
  std::uint32_t rank = 0;  // of the device that issued it
  std::uint32_t core = 0;
  emu::Time issued = 0;
  std::uint32_t target = 0;  // rank of the device that it went to
  std::uint64_t bytes = 0;
  std::uint32_t switches = 0;      // on its way
  std::uint32_t link_classes = 0;  // that it passed, by bit
};

struct CausalHistory {
  /// False where the run was too large to keep its causes; the rest is then empty.
  bool complete = false;
  CausalGraph graph;
  std::vector<KernelPoints> kernels;  // in order of their starts
  std::vector<PutRecord> puts;        // by (rank, core, issued)
  /// Points that the graph has earlier, or later, than they were: the time that it does not
  /// explain, summed over them. Zero unless something delays packets that is no cost, such as an
  /// adversary.
  emu::Time unexplained = 0;
  emu::Time misplaced = 0;
};

/// Collective: what the cluster's causal log holds, as a graph on process 0; elsewhere only
/// `complete` is set. `alignment`: as the kernels were started.
CausalHistory causal_history(Cluster& cluster, Alignment alignment);

/// Largest latency of an operation's iteration over all devices, with points at `times`.
emu::Time slowest(const CausalHistory& history, const std::vector<emu::Time>& times,
                  KernelRange kernels, std::uint32_t iteration);

}  // namespace orrery::devices
