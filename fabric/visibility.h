// When arrived bytes become visible at a device: atomic blocks, channel order, the adversary,
// completion (design section 6, R9).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "emu/engine.h"
#include "fabric/memory.h"
#include "fabric/network.h"
#include "fabric/packet.h"

namespace orrery::fabric {

/// What the owner of a memory learns.
class VisibilitySink {
 public:
  virtual ~VisibilitySink() = default;
  /// [address, address + bytes) just changed, all at once; `packet` says by whom.
  virtual void on_visible(const Packet& packet, Address address, std::uint32_t bytes) = 0;
  /// All bytes of a put are visible. `packet` is its last; the put covers put_bytes.
  virtual void on_complete(const Packet& packet) = 0;
  /// It is time to acknowledge a put (at `received` this comes before on_complete).
  virtual void on_acknowledge(const Packet& packet) = 0;
};

/// What the adversary may do (design section 6): delay blocks by at most `delay`, within the order
/// rules.
struct Adversary {
  bool on = false;
  std::uint64_t seed = 0;
  emu::Time delay = 0;
};

class Visibility {
 public:
  /// `sources`: number of device ports of the topology; `channels`: per source device.
  Visibility(emu::Engine& engine, const Fabric& fabric, Memory& memory, VisibilitySink& sink,
             NodeId node, std::uint32_t sources, std::uint32_t channels,
             const Adversary& adversary);

  /// The tail of `packet` arrived.
  void deliver(const Packet& packet);
  /// A block that the adversary delayed is due (kBlockVisible).
  void block_due(const Packet& fragment);

  /// See LogicalProcess::prefetch.
  void prefetch(const Packet& packet, int step) const {
    if (step != 0) return;
    if (packet.ordered) emu::prefetch_bytes(&channels_[channel_index(packet)], sizeof(Channel));
    memory_.prefetch(packet.address);
    if (shard_.is_local(packet.source)) {
      emu::prefetch_bytes(reinterpret_cast<const void*>(packet.payload), 128);
    }
  }

  /// Puts whose bytes arrived and are held back by channel order now.
  std::size_t held() const { return held_count_; }

 private:
  // Only for puts that the fast path cannot follow: unordered ones of several packets,
  // first_fragment order, acknowledgement at reception.
  struct Assembly {
    std::uint32_t received = 0;
    std::uint32_t visible = 0;
  };
  struct Channel {
    std::uint32_t next = 0;     // first put that is not wholly visible
    std::uint32_t visible = 0;  // its visible bytes
    std::vector<Packet> held;   // packets of later puts, in order of arrival
  };

  std::uint64_t put_key(const Packet& packet) const;
  std::uint32_t channel_index(const Packet& packet) const {
    return packet.source * channels_per_source_ + packet.channel;
  }
  void count_received(const Packet& packet);
  void split(const Packet& packet);
  void arrive(const Packet& fragment);
  void expose(const Packet& fragment);
  void arrive_whole(const Packet& fragment);
  void arrive_first_fragment(const Packet& fragment);
  void arrive_unordered(const Packet& fragment);
  void hold(Channel& channel, const Packet& fragment);
  bool accept_whole(Channel& channel, const Packet& fragment);
  bool accept_first_fragment(Channel& channel, const Packet& fragment);
  void finish(const Packet& fragment);
  void release_held(Channel& channel, const Journey& cause);

  emu::Shard& shard_;
  Memory& memory_;
  VisibilitySink& sink_;
  const NodeId node_;
  const std::uint32_t block_bytes_;
  const Fabric::OrderKind order_kind_;
  const Fabric::AckAt ack_at_;
  const std::uint32_t channels_per_source_;
  const Adversary adversary_;
  const bool flags_fast_;
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, Assembly> assemblies_;
  std::size_t held_count_ = 0;
};

}  // namespace orrery::fabric
