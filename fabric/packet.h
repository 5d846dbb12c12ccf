// What travels through the fabric: one packet of a put, an atomic, a get request, or an
// acknowledgement.
#pragma once

#include <array>
#include <cstdint>

#include "emu/event.h"
#include "emu/time.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// A byte offset in a device's memory.
using Address = std::uint64_t;

/// Kinds of events that reach a node from the fabric; a device's own kinds start at
/// kFirstDeviceKind.
enum EventKind : std::uint32_t {
  kHeadArrival = 0,   // a packet's head is at a node on its way
  kDelivery = 1,      // a packet's tail is at its destination
  kBlockVisible = 2,  // an adversary's delayed block
  kAcknowledgement = 3,
  kFirstDeviceKind = 16,
};

/// A fetch-and-add asks as a get does, and is answered by a get's reply.
enum class PacketKind : std::uint8_t { kPut, kAtomicAdd, kGetRequest, kGetReply, kAck, kFetchAdd };

/// Why a packet is visible when it is: enough to explain the time and to go on at its origin. The
/// time from `issued` to visibility is issuing + latency + queueing + serialisation (the
/// remainder). A packet that channel order held back takes over the journey of the put that it
/// waited for.
struct Journey {
  /// In `queueing`, the place of the time in the destination's hub, its queue included. Fabrics of
  /// machines with hubs have fewer classes of links.
  static constexpr std::size_t kHub = Topology::kMaxLinkClasses - 1;

  emu::Time issued = 0;   // the core began to issue
  emu::Time issuing = 0;  // issue cost and waiting for a service core
  emu::Time latency = 0;  // links' latencies
  std::array<emu::Time, Topology::kMaxLinkClasses> queueing = {};
  NodeId device = kNoNode;
  std::uint16_t core = 0;
  bool posted = false;  // by a NIC: `issuing` is also what the proxy and the NIC made it wait
};

struct Packet {
  NodeId source = kNoNode;
  NodeId destination = kNoNode;
  Address address = 0;  // at the destination
  std::uint64_t payload =
      0;  // reference for Engine::take_payload; of what asks: the requester's address
  std::uint32_t bytes = 0;      // of this packet
  std::uint32_t put_bytes = 0;  // of the whole put; of what asks: bytes wanted
  std::uint32_t put = 0;        // the sender's number for the put (a get: the requester's)
  std::uint32_t sequence = 0;   // of the put in its channel
  std::uint32_t offset = 0;     // of these bytes in the put; of a fetch-and-add: what is added
  std::uint16_t channel = 0;    // of the source device; meaning depends on the order scope
  std::uint16_t core = 0;       // that issued the put
  PacketKind kind : 4 = PacketKind::kPut;
  bool ordered : 1 = false;
  bool first : 1 = true;       // of the put's packets
  bool signal : 1 = false;     // visible after all other bytes of the put
  bool scale_out : 1 = false;  // between scale-up domains
  bool by_proxy : 1 = false;   // written by a proxy of the destination
  bool tells : 1 = false;      // with order_kind SIGNALS: visible after all earlier puts
  bool detoured : 1 = false;   // it has left its shortest path once
  bool logical : 1 = false;  // its address is the name of a place that the destination's hub knows
  bool refused : 1 = false;  // the hub had no room for its put
  std::uint16_t epoch = 0;   // fences and quiets of the core so far that waited
  std::uint32_t choice = 0;  // among equal paths
  std::uint32_t in_buffer = 0;  // where the bytes begin in the payload's buffer
  std::uint32_t number = 0;     // among all packets of the source
  emu::Time issued = 0;         // when the core did
  emu::Time path_latency = 0;   // links' latencies so far: the acknowledgement's way back
  emu::Time tail_lag = 0;       // tail behind head, at the head's arrival
  Journey journey;
};
static_assert(sizeof(Packet) <= emu::Event::kBodyBytes);

}  // namespace orrery::fabric
