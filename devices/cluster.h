// The devices and switches of one emulation, spread over the processes of a run (design R2, R3).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/cost.h"
#include "devices/costs.h"
#include "devices/device_process.h"
#include "devices/lost_put.h"
#include "devices/machine.h"
#include "emu/engine.h"
#include "emu/process_group.h"
#include "emu/transport.h"
#include "fabric/causal_log.h"
#include "fabric/network.h"
#include "fabric/routing.h"
#include "fabric/topology.h"
#include "fabric/wiring.h"

namespace orrery::devices {

struct ClusterOptions {
  std::uint32_t ranks = 0;
  std::string placement = "packed";
  std::uint64_t memory_bytes = 0;       // of every device: one flat region, or
  std::vector<fabric::Region> regions;  // these
  fabric::Adversary adversary;
  emu::Time limit = emu::kNever;
  int threads = 1;  // that run this process's devices
  int shards = 0;   // groups of devices per process that threads run; 0: picked from their number
  WhatIf what_if;
  LostPut lost_put;
  std::shared_ptr<const fabric::Wiring> wiring =
      nullptr;                       // of this machine; null: built for this cluster
  std::uint64_t causal_entries = 0;  // keep at most so many causes per process; 0: keep none
  std::uint64_t check_records = 0;   // keep at most so many accesses per device; 0: keep none
};

class Cluster {
 public:
  /// Collective over `processes`. `transport` may be null for one process. Throws ConfigError when
  /// the ranks do not fit the topology or failures keep some of them apart. `machine` must outlive
  /// the cluster.
  Cluster(const emu::ProcessGroup& processes, emu::Transport* transport, const Machine& machine,
          const std::string& where, const ClusterOptions& options);
  ~Cluster();

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ports_.size()); }
  bool is_local(std::uint32_t rank) const { return devices_[rank] != nullptr; }
  DeviceProcess& device(std::uint32_t rank) { return *devices_[rank]; }
  int process_of(std::uint32_t rank) const { return engine_.process_of(ports_[rank]); }
  std::uint32_t rank_at(fabric::NodeId node) const { return rank_of_node_[node]; }
  const std::vector<fabric::NodeId>& ports() const { return ports_; }

  emu::Engine& engine() { return engine_; }
  const fabric::Network& network() const { return network_; }
  const fabric::Topology& topology() const { return topology_; }
  const Costs& costs() const { return costs_; }
  const emu::ProcessGroup& processes() const { return processes_; }

  /// Runs until nothing is left to do. Collective. Empty if every stream ended; else the hang
  /// report, on every process (R6).
  std::string run();

  /// Collective: the event digest (R4), the same on every process.
  std::uint64_t digest() const;
  std::uint64_t executed_events() const;

 private:
  const emu::ProcessGroup& processes_;
  const std::shared_ptr<const fabric::Wiring> wiring_;
  const fabric::Topology& topology_;
  const fabric::Routing& routing_;
  const std::vector<fabric::NodeId> ports_;
  const Costs costs_;
  const emu::Time limit_;
  const int shards_;
  emu::Engine engine_;
  fabric::Network network_;
  std::unique_ptr<fabric::CausalLog> causal_log_;
  std::vector<std::uint32_t> rank_of_node_;
  std::vector<std::unique_ptr<fabric::Switch>> switches_;
  std::vector<std::unique_ptr<DeviceProcess>>
      devices_;  // by rank; null where another process has it
};

/// The process (or, of several per process, the shard) of every node: ranks in equal blocks; a
/// first-tier switch with the first of its ranks; higher tiers round robin (R3). Nodes without a
/// part in the run are on process 0.
std::vector<int> assign_processes(const fabric::Topology& topology,
                                  const std::vector<fabric::NodeId>& ports, int processes);

/// The smallest latency of a link between nodes of different processes or shards; kNever if there
/// is none.
emu::Time lookahead_of(const fabric::Topology& topology, const std::vector<int>& assigned);

/// Shards per process: one for a single thread (R3); else at least one for each, so many that a
/// shard's queue and its devices' memory stay in a cache, cut where links are slow.
int pick_shards(const fabric::Topology& topology, const std::vector<fabric::NodeId>& ports,
                int processes, int threads);

}  // namespace orrery::devices
