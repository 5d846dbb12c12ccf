// When arrived bytes become visible at a device: atomic blocks, channel order, the adversary,
// completion (design section 6, R9).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "emu/engine.h"
#include "fabric/adversary.h"
#include "fabric/memory.h"
#include "fabric/network.h"
#include "fabric/packet.h"
#include "fabric/rules.h"

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
  /// Bytes that a proxy of the destination is to write have arrived, in their order: it calls
  /// Visibility::apply() when it does.
  virtual void on_message(const Packet& packet) = 0;
};

class Visibility {
 public:
  /// `sources`: number of device ports of the topology; `channels`: per source device, at most.
  Visibility(emu::Engine& engine, const Fabric& fabric, Memory& memory, VisibilitySink& sink,
             NodeId node, std::uint32_t sources, std::uint32_t channels,
             const Adversary& adversary);

  /// The tail of `packet` arrived.
  void deliver(const Packet& packet);
  /// The destination's proxy writes the bytes of a message.
  void apply(const Packet& message) { write(message); }
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

  /// Packets that arrived and are held back by the order of their channel, by a fence or, signals,
  /// by their own put.
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
  // A core of a peer, where acknowledgements come at reception: it knows that its puts of an
  // earlier epoch were received when it sends one of a later epoch, which must not be visible
  // before them.
  struct Fences {
    std::map<std::uint16_t, std::uint32_t> open;  // puts received in part that are not visible yet
    std::vector<Packet> held;                     // packets of later epochs, in order of arrival
  };

  std::uint64_t put_key(const Packet& packet) const;
  std::uint32_t channel_index(const Packet& packet) const {
    return packet.source * channels_per_source_ + packet.channel;
  }
  static std::uint64_t core_key(const Packet& packet) {
    return (static_cast<std::uint64_t>(packet.source) << 16) | packet.core;
  }
  void count_received(const Packet& packet);
  void split(const Packet& packet);
  void arrive(const Packet& fragment);
  void pass(const Packet& fragment);
  bool is_fenced(const Packet& fragment) const;
  void put_is_visible(const Packet& fragment);
  void expose(const Packet& fragment);
  void write(const Packet& fragment);
  bool expose_of_put(const Packet& fragment, std::uint32_t& visible);
  void arrive_whole(const Packet& fragment);
  void arrive_first_fragment(const Packet& fragment);
  void arrive_signals(const Packet& fragment);
  void arrive_unordered(const Packet& fragment);
  void hold(std::vector<Packet>& held, const Packet& fragment);
  bool accept_whole(Channel& channel, const Packet& fragment);
  bool accept_first_fragment(Channel& channel, const Packet& fragment);
  bool accept_signals(Channel& channel, const Packet& fragment);
  bool accept(Channel& channel, const Packet& fragment);
  const PathRules& rules(const Packet& packet) const { return rules_[packet.scale_out ? 1 : 0]; }
  bool accept_assembled(const Packet& fragment);
  void finish(const Packet& fragment);
  void release_held(Channel& channel, const Journey& cause);

  emu::Shard& shard_;
  Memory& memory_;
  VisibilitySink& sink_;
  const NodeId node_;
  const PathRules rules_[2];  // of the scale-up and of the scale-out network
  const std::uint32_t channels_per_source_;
  const Adversary adversary_;
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, Assembly> assemblies_;
  std::unordered_map<std::uint64_t, Packet> signals_;  // by put
  std::unordered_map<std::uint64_t, Fences> fences_;   // by core; of received acknowledgements
  // By channel, where signals alone are ordered: puts after `next` that are wholly visible.
  std::unordered_map<std::uint32_t, std::set<std::uint32_t>> complete_;
  std::size_t held_count_ = 0;
};

}  // namespace orrery::fabric
