#include "fabric/network.h"

#include <algorithm>

#include "emu/errors.h"
#include "emu/random.h"

namespace orrery::fabric {

Network::Network(emu::Engine& engine, const Topology& topology, const Routing& routing,
                 const Fabric& fabric)
    : engine_(engine),
      topology_(topology),
      routing_(routing),
      fabric_(fabric),
      self_latency_(emu::from_ns(fabric.self_latency_ns())),
      rules_{path_rules(fabric, false), path_rules(fabric, true)},
      uses_(topology.links.size()),
      detours_(topology, uses_) {}

void Network::forward(NodeId node, emu::Time head, const Packet& packet) {
  const auto [shortest, choice] = routing_.next_step(node, packet.destination, packet.choice);
  if (shortest == kNoLink) {
    throw emu::InvariantError("no path from " + topology_.names[node] + " to " +
                              topology_.names[packet.destination]);
  }
  const LinkId id = packet.detoured ? shortest : detours_.better_than(shortest, head);
  const Link& link = topology_.links[id];
  LinkUse& use = uses_[id];
  const std::uint32_t wire_bytes = packet.bytes + rules(packet.scale_out).header_bytes;
  const emu::Time start = std::max(head, use.free);
  const emu::Time tail =
      std::max(start + link.rate.serialisation(wire_bytes), head + packet.tail_lag);
  const std::uint64_t put = (static_cast<std::uint64_t>(packet.source) << 32) | packet.put;
  const bool part = packet.put_bytes > packet.bytes && packet.kind != PacketKind::kAck;
  const bool same_put = part && use.run_of == put && use.free >= head;
  if (!same_put) {
    use.run_of = put;
    use.run_since = start;
  }
  const emu::Time queued = std::min(start, std::max(head, use.run_since)) - head;
  use.free = tail;
  use.busy += tail - start;
  use.waited += queued;
  use.bytes += wire_bytes;
  ++use.packets;
  if (emu::TraceSink* trace = engine_.shard_of(node).trace()) [[unlikely]]
    trace->on_busy(node, link.link_class, start, tail);

  if (log_ != nullptr) {
    log_->add(node, {.at = head,
                     .key = causal_key(packet.source, packet.number),
                     .amount = wire_bytes,
                     .other = id,
                     .kind = CausalKind::kHop});
  }

  const bool last = link.to == packet.destination;
  emu::Event& event = engine_.shard_of(node).schedule(
      node, link.to, (last ? tail : start) + link.latency, last ? kDelivery : kHeadArrival);
  Packet& next = event.as<Packet>();
  next = packet;
  next.choice = choice;
  next.detoured = packet.detoured || id != shortest;
  next.tail_lag = tail - start;
  next.journey.queueing[link.link_class] += queued;
  next.journey.latency += link.latency;
  next.path_latency += link.latency;
}

void Network::inject(emu::Time now, const Packet& packet) {
  if (packet.destination != packet.source) {
    forward(packet.source, now, packet);
    return;
  }
  if (log_ != nullptr) {
    log_->add(
        packet.source,
        {.at = now, .key = causal_key(packet.source, packet.number), .kind = CausalKind::kSelf});
  }
  Packet& self = engine_.shard_of(packet.source)
                     .schedule(packet.source, packet.source, now + self_latency_, kDelivery)
                     .as<Packet>();
  self = packet;
  self.journey.latency += self_latency_;
  self.path_latency += self_latency_;
}

std::uint32_t Network::choice(NodeId source, NodeId destination, std::uint64_t n) const {
  const std::uint32_t picked = source_choice(source, destination, n);
  if (rules(is_scale_out(source, destination)).switch_choice == Fabric::SPREAD) return picked;
  const std::uint32_t links = std::max(routing_.choices(source, destination), 1u);
  return picked % links + links * destination;
}

std::uint32_t Network::source_choice(NodeId source, NodeId destination, std::uint64_t n) const {
  switch (rules(is_scale_out(source, destination)).plane_choice) {
    case Fabric::SINGLE:
      return 0;
    case Fabric::HASH:
      return static_cast<std::uint32_t>(emu::combine64(emu::combine64(source, destination), n) >>
                                        40);
    case Fabric::ROUND_ROBIN:
      break;
  }
  return static_cast<std::uint32_t>(n);
}

}  // namespace orrery::fabric
