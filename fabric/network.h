// Links in motion: packets served first come, first served in each direction, cut-through.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emu/engine.h"
#include "fabric/causal_log.h"
#include "fabric/detours.h"
#include "fabric/packet.h"
#include "fabric/routing.h"
#include "fabric/rules.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// What a link carried; its sender's state alone.
struct LinkUse {
  emu::Time free = 0;    // when the next packet's head may enter
  emu::Time busy = 0;    // time spent serving
  emu::Time waited = 0;  // queueing that packets saw here, behind other puts
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  // The put whose packets are being served, back to back, and since when: a packet behind its own
  // put's earlier ones does not queue, it is serialised.
  std::uint64_t run_of = ~std::uint64_t{0};
  emu::Time run_since = 0;
};

/// The links of a topology on an engine whose first logical processes are the topology's nodes.
class Network {
 public:
  Network(emu::Engine& engine, const Topology& topology, const Routing& routing,
          const Fabric& fabric);

  /// Sends a packet whose head is at `node` at time `head` over the next link of its path: its head
  /// leaves at max(head, link free), its tail at max(head out + bytes / rate, tail in). Schedules
  /// the head's arrival at the next node, or the tail's if that is the destination. `node` ≠
  /// destination.
  void forward(NodeId node, emu::Time head, const Packet& packet);

  /// Sends `packet`, complete at its source at `now`, on its way; to its own device after
  /// self_latency.
  void inject(emu::Time now, const Packet& packet);

  /// The number that picks a path for the `n`-th packet or put from `source` to `destination`.
  /// Its residue by the links at the source picks among those; switches on the way go on with the
  /// rest (see Routing::next_link).
  std::uint32_t choice(NodeId source, NodeId destination, std::uint64_t n) const;

  const Fabric& fabric() const { return fabric_; }
  /// Of the network between two devices.
  const PathRules& rules(bool scale_out) const { return rules_[scale_out ? 1 : 0]; }
  bool is_scale_out(NodeId a, NodeId b) const { return topology_.is_scale_out(a, b); }
  const Topology& topology() const { return topology_; }
  const Routing& routing() const { return routing_; }
  emu::Time self_latency() const { return self_latency_; }
  const LinkUse& use(LinkId link) const { return uses_[link]; }

  /// Where causes are kept; null for nowhere.
  void set_causal_log(CausalLog* log) { log_ = log; }
  CausalLog* causal_log() const { return log_; }

 private:
  std::uint32_t source_choice(NodeId source, NodeId destination, std::uint64_t n) const;

  emu::Engine& engine_;
  const Topology& topology_;
  const Routing& routing_;
  const Fabric& fabric_;
  const emu::Time self_latency_;
  const PathRules rules_[2];  // scale-up, scale-out
  std::vector<LinkUse> uses_;
  const Detours detours_;
  CausalLog* log_ = nullptr;
};

/// A switch: hands packets on.
class Switch final : public emu::LogicalProcess {
 public:
  Switch(Network& network, NodeId node) : network_(network), node_(node) {}
  void handle(const emu::Event& event) override {
    network_.forward(node_, event.time, event.as<Packet>());
  }

 private:
  Network& network_;
  NodeId node_;
};

}  // namespace orrery::fabric
