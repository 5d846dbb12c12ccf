// A device's load/store port: streams puts from the cores into the fabric, packet by packet.
//
// A put's packets leave the issuing core's pipe one after the other at the core's store rate; each
// reads its source bytes when it leaves and is then at the first link. With a service core all puts
// of the device go one by one through that core's queue and pipe. Puts that a NIC sends are
// prepared here and begin when it says so, from a pipe of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "devices/costs.h"
#include "emu/engine.h"
#include "fabric/memory.h"
#include "fabric/network.h"
#include "fabric/packet.h"

namespace orrery::devices {

/// A contiguous part of a put.
struct Piece {
  fabric::Address to;    // at the destination
  fabric::Address from;  // at the source
  std::uint32_t bytes;
};

/// A put in progress, as its issuer sees it.
struct PutHandle {
  // Its last packet leaves then, and its source may be reused; kNever: when it is acknowledged.
  emu::Time locally_complete = 0;
  std::uint64_t serial = 0;  // of the put on its device, from 1; 0: no put
  std::uint32_t number = 0;  // for the port
};

/// A request to the port. `immediate` data, if any, was taken at issue and needs no source: it is
/// the whole put, or, of a put with a signal, its last piece.
struct StoreRequest {
  fabric::NodeId destination = 0;
  std::uint32_t destination_rank = 0;
  std::uint32_t core = 0;
  fabric::PacketKind kind = fabric::PacketKind::kPut;
  std::span<const Piece> pieces;
  std::span<const std::byte> immediate;  // at most kMaxImmediate
  bool give = false;                     // the one piece is a row whose source is given up now
  bool signal = false;                   // the last piece is a signal for all others,
  bool signal_adds = false;              // and is added to what is there: 8 bytes
  bool tells = false;                    // it tells of earlier puts
  bool by_proxy = false;                 // a proxy of the destination writes it
  bool logical = false;                  // the destination's hub gives it its place
  std::uint32_t packet_bytes = 0;        // its largest packet; 0: the network's
  std::uint32_t queue = 0;               // queue pair, where those keep order
  std::uint16_t epoch = 0;               // fences and quiets of the core so far that waited
  emu::Time issued = 0;                  // the core began to issue
  static constexpr std::size_t kMaxImmediate = 64;
};

class StorePort {
 public:
  static constexpr std::uint32_t kInjectKind = fabric::kFirstDeviceKind + 0;

  StorePort(emu::Engine& engine, fabric::Network& network, fabric::Memory& memory,
            const Costs& costs, fabric::NodeId node, std::uint32_t ranks);

  /// Begins a put at time `start` (≥ now: the core's issue cost has been paid then).
  PutHandle submit(const StoreRequest& request, emu::Time start);
  /// Prepares a put that a NIC will send.
  PutHandle prepare(const StoreRequest& request);
  /// The NIC begins to send it at `start` (≥ now).
  void begin_posted(std::uint32_t number, emu::Time start);
  /// Answers a get: streams [from, from + bytes) to `request.source` at once.
  void reply(const fabric::Packet& request, emu::Time now);
  struct Addition {
    std::uint32_t value;
    bool issued_with_last;  // in the time of the request just before
  };
  /// Asks `destination` for `bytes` at `from` there, to be put at `to` here; with `add`, for a word
  /// of 4 bytes, to which that is added when it has been read.
  void request(fabric::NodeId destination, std::uint32_t core, fabric::Address from,
               fabric::Address to, std::uint32_t bytes, emu::Time issued, emu::Time start,
               const std::optional<Addition>& add = {});

  /// A packet of put `number` leaves its pipe (kInjectKind).
  void inject(std::uint32_t number, emu::Time now);

  void prefetch(std::uint32_t number, int step) const {
    const Put& put = puts_[number];
    if (step == 0) {
      emu::prefetch_bytes(&put, sizeof(Put));
    } else {
      emu::prefetch_bytes(put.pieces.data(), sizeof(Piece));
      if (put.given != nullptr) emu::prefetch_bytes(put.given, 64);
    }
  }

  /// True once the last packet has left. At the very time of local completion events decide.
  bool has_left(const PutHandle& handle) const {
    if (handle.serial == 0) return true;
    const Put& put = puts_[handle.number];
    if (put.serial != handle.serial) return true;
    return !put.head.journey.posted && put.piece == put.pieces.size();
  }

  bool is_acknowledged(const PutHandle& handle) const {
    return handle.serial == 0 || puts_[handle.number].serial != handle.serial;
  }

  /// The put's number among all of this device, as the causal log knows it.
  std::uint32_t serial(std::uint32_t number) const {
    return static_cast<std::uint32_t>(puts_[number].serial);
  }
  /// Whether a NIC sends the put.
  bool is_posted(std::uint32_t number) const { return puts_[number].head.journey.posted; }
  /// What all packets of a put share, right after its submit().
  const fabric::Packet& head(const PutHandle& handle) const { return puts_[handle.number].head; }
  /// The put's core, after which the put is forgotten.
  std::uint32_t acknowledge(std::uint32_t number);

  /// Channels that a source device has, by the order scope of the network that has more of them.
  static std::uint32_t channels(const fabric::Network& network, const Costs& costs);

  /// Sends an acknowledgement of the put that `packet` completes: a packet of its own.
  void send_acknowledgement(const fabric::Packet& packet, std::uint32_t bytes, emu::Time now);

 private:
  struct Put {
    fabric::Packet head;  // what all its packets share
    std::vector<Piece> pieces;
    std::array<std::byte, StoreRequest::kMaxImmediate> immediate;
    std::uint32_t immediate_from;  // the first piece that is immediate
    bool signal;
    bool signal_adds;
    std::uint32_t packet_bytes;    // at most; 0: the network's
    emu::Buffer* given = nullptr;  // the source, if it was given up
    std::uint32_t piece;           // next packet: its piece and its offset there
    std::uint32_t offset;
    std::uint64_t choice_base;
    std::uint32_t packets;  // sent
    std::uint32_t bytes;    // sent
    std::uint64_t serial;
  };
  struct Pipe {
    emu::Time free = 0;
  };

  std::uint32_t acquire();
  std::uint32_t prepare_put(const StoreRequest& request);
  std::uint16_t channel_of(const StoreRequest& request, bool scale_out) const;
  emu::Time packet_time(const Put& put, std::uint32_t bytes) const;
  bool is_unlimited(const Put& put) const;
  std::uint32_t next_packet_bytes(const Put& put) const;
  emu::Time stream(std::uint32_t number, Pipe& pipe, emu::Time start);
  void check_carried(const StoreRequest& request, const Piece& piece) const;
  std::span<const std::byte> source_of(const Put& put, const fabric::Packet& packet);
  void send_next(std::uint32_t number, emu::Time now);

  emu::Shard& shard_;
  fabric::Network& network_;
  fabric::Memory& memory_;
  const Costs& costs_;
  const fabric::NodeId node_;
  const std::uint32_t channels_;
  std::vector<Pipe> pipes_;  // per core; only the first with a service core
  Pipe nic_pipe_;
  emu::Time service_free_ = 0;
  std::vector<std::uint32_t> sequences_;  // per destination rank and channel
  std::uint32_t unordered_sequence_ = 0;
  std::uint64_t choices_ = 0;
  std::uint64_t serials_ = 0;
  std::uint32_t packets_ = 0;
  std::vector<Put> puts_;
  std::vector<std::uint32_t> free_;
  std::vector<std::byte> carried_;  // of the packet that is being sent
};

}  // namespace orrery::devices
