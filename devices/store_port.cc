#include "devices/store_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emu/errors.h"

namespace orrery::devices {

using fabric::Fabric;
using fabric::Packet;
using fabric::PacketKind;

namespace {

// Queue pairs to a peer in the scale-up network, or of a NIC.
std::uint32_t queue_pairs(const Costs& costs, bool scale_out) {
  return scale_out && costs.nic ? costs.nic->queue_pairs : costs.queue_pairs;
}

std::uint32_t channels_of(const fabric::Network& network, const Costs& costs, bool scale_out) {
  switch (network.rules(scale_out).order_scope) {
    case Fabric::NONE:
      return 0;
    case Fabric::DEVICE_PAIR:
      return 1;
    case Fabric::CORE_PAIR:
      return costs.cores;
    case Fabric::QUEUE_PAIR:
      return queue_pairs(costs, scale_out);
  }
  return 0;
}

}  // namespace

std::uint32_t StorePort::channels(const fabric::Network& network, const Costs& costs) {
  const std::uint32_t up = channels_of(network, costs, false);
  if (network.topology().scale_up_domain.empty()) return up;
  return std::max(up, channels_of(network, costs, true));
}

std::uint16_t StorePort::channel_of(const StoreRequest& request, bool scale_out) const {
  switch (network_.rules(scale_out).order_scope) {
    case Fabric::CORE_PAIR:
      return static_cast<std::uint16_t>(request.core);
    case Fabric::QUEUE_PAIR:
      return static_cast<std::uint16_t>(request.queue % queue_pairs(costs_, scale_out));
    case Fabric::NONE:
    case Fabric::DEVICE_PAIR:
      break;
  }
  return 0;
}

StorePort::StorePort(emu::Engine& engine, fabric::Network& network, fabric::Memory& memory,
                     const Costs& costs, fabric::NodeId node, std::uint32_t ranks)
    : shard_(engine.shard_of(node)),
      network_(network),
      memory_(memory),
      costs_(costs),
      node_(node),
      channels_(channels(network, costs)),
      pipes_(costs.service_core_put > 0 ? 1 : costs.cores),
      sequences_(std::size_t{ranks} * channels_, 0) {}

std::uint32_t StorePort::acquire() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(puts_.size()));
    puts_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

// What is taken without looking at it must be what its destination expects.
void StorePort::check_carried(const StoreRequest& request, const Piece& piece) const {
  const std::uint64_t expected = memory_.carried(piece.to, piece.bytes);
  if ((request.give && memory_.carried(piece.from, piece.bytes) != expected) ||
      (!request.immediate.empty() && !request.signal && expected != piece.bytes)) {
    throw emu::InvariantError(
        "a put to bytes of a row that --payload control does not carry, or of other ones");
  }
}

std::uint32_t StorePort::prepare_put(const StoreRequest& request) {
  const std::uint32_t number = acquire();
  Put& put = puts_[number];
  put.pieces.assign(request.pieces.begin(), request.pieces.end());
  put.signal = request.signal;
  put.signal_adds = request.signal_adds;
  put.packet_bytes = request.packet_bytes;
  const auto pieces = static_cast<std::uint32_t>(request.pieces.size());
  put.immediate_from = request.immediate.empty() ? pieces : request.signal ? pieces - 1 : 0;
  put.given = request.give ? memory_.take_row(request.pieces[0].from) : nullptr;
  for (const Piece& piece : request.pieces) {
    const bool is_signal = request.signal && &piece == &request.pieces.back();
    if (!is_signal) check_carried(request, piece);
  }
  if (!request.immediate.empty()) {
    std::memcpy(put.immediate.data(), request.immediate.data(), request.immediate.size());
  }
  put.piece = 0;
  put.offset = 0;
  put.packets = 0;
  put.bytes = 0;

  Packet& head = put.head;
  head = Packet{};
  head.source = node_;
  head.destination = request.destination;
  head.put = number;
  head.kind = request.kind;
  head.core = static_cast<std::uint16_t>(request.core);
  head.issued = request.issued;
  head.epoch = request.epoch;
  for (const Piece& piece : request.pieces) head.put_bytes += piece.bytes;
  if (head.put_bytes == 0) throw emu::InvariantError("a put of no bytes");
  head.scale_out = network_.is_scale_out(node_, request.destination);
  head.tells = request.tells;
  head.by_proxy = request.by_proxy;
  head.logical = request.logical;
  if (network_.rules(head.scale_out).order_scope != Fabric::NONE) {
    head.ordered = true;
    head.channel = channel_of(request, head.scale_out);
    head.sequence = sequences_[std::size_t{request.destination_rank} * channels_ + head.channel]++;
  } else {
    head.sequence = unordered_sequence_++;
  }
  head.journey.device = node_;
  head.journey.core = static_cast<std::uint16_t>(request.core);
  head.journey.issued = request.issued;
  put.choice_base = choices_++;
  put.serial = ++serials_;
  return number;
}

PutHandle StorePort::prepare(const StoreRequest& request) {
  const std::uint32_t number = prepare_put(request);
  puts_[number].head.journey.posted = true;
  return {emu::kNever, puts_[number].serial, number};
}

void StorePort::begin_posted(std::uint32_t number, emu::Time start) {
  Put& put = puts_[number];
  put.head.journey.issuing = start - put.head.issued;
  stream(number, nic_pipe_, start);
}

PutHandle StorePort::submit(const StoreRequest& request, emu::Time start) {
  const std::uint32_t number = prepare_put(request);
  Put& put = puts_[number];
  Packet& head = put.head;
  Pipe* pipe = &pipes_[0];
  if (costs_.service_core_put > 0) {
    service_free_ = std::max(start, service_free_) + costs_.service_core_put;
    start = service_free_;
  } else {
    pipe = &pipes_[request.core];
  }
  head.journey.issuing = start - request.issued;
  if (fabric::CausalLog* log = network_.causal_log()) {
    log->add(node_, {.at = request.issued,
                     .key = fabric::causal_key(node_, serial(number)),
                     .amount = head.put_bytes | (std::uint64_t{head.channel} << 32),
                     .other = request.destination,
                     .core = head.core,
                     .kind = fabric::CausalKind::kPut});
  }
  return {stream(number, *pipe, start), put.serial, number};
}

void StorePort::reply(const Packet& request, emu::Time now) {
  const std::uint32_t number = acquire();
  Put& put = puts_[number];
  put.pieces.assign(1, Piece{request.payload, request.address, request.put_bytes});
  put.signal = false;
  put.packet_bytes = 0;
  put.immediate_from = 1;
  put.given = nullptr;
  put.piece = 0;
  put.offset = 0;
  put.packets = 0;
  put.bytes = 0;
  Packet& head = put.head;
  head = Packet{};
  head.source = node_;
  head.destination = request.source;
  head.put = request.put;
  head.put_bytes = request.put_bytes;
  head.kind = PacketKind::kGetReply;
  head.core = request.core;
  head.issued = request.issued;
  head.sequence = unordered_sequence_++;
  head.scale_out = request.scale_out;
  head.journey = request.journey;  // the reply goes on where the request arrived
  const fabric::CausalKey asked = fabric::causal_key(request.source, request.number);
  put.choice_base = choices_++;
  put.serial = ++serials_;
  // The port serves gets by itself, packets back to back, with no core's pipe in between.
  while (put.piece < put.pieces.size()) {
    if (fabric::CausalLog* log = network_.causal_log()) {
      log->add(node_, {.at = now,
                       .key = fabric::causal_key(node_, packets_),
                       .amount = asked,
                       .kind = fabric::CausalKind::kReply});
    }
    send_next(number, now);
  }
  free_.push_back(number);
}

void StorePort::request(fabric::NodeId destination, std::uint32_t core, fabric::Address from,
                        fabric::Address to, std::uint32_t bytes, emu::Time issued, emu::Time start,
                        const std::optional<Addition>& add) {
  Packet packet;
  packet.source = node_;
  packet.destination = destination;
  packet.address = from;
  packet.payload = to;
  packet.put_bytes = bytes;
  packet.put = core;
  packet.kind = PacketKind::kGetRequest;
  if (add) {
    packet.kind = PacketKind::kFetchAdd;
    packet.bytes = sizeof(add->value);
    packet.offset = add->value;
  }
  packet.core = static_cast<std::uint16_t>(core);
  packet.issued = issued;
  packet.choice = network_.choice(node_, destination, choices_++);
  packet.number = packets_++;
  packet.scale_out = network_.is_scale_out(node_, destination);
  packet.journey.device = node_;
  packet.journey.core = static_cast<std::uint16_t>(core);
  packet.journey.issued = issued;
  packet.journey.issuing = start - issued;
  if (fabric::CausalLog* log = network_.causal_log()) {
    log->add(node_, {.at = start,
                     .key = fabric::causal_key(node_, packet.number),
                     .core = packet.core,
                     .kind = fabric::CausalKind::kGet,
                     .detail = static_cast<std::uint8_t>(add && add->issued_with_last ? 1 : 0)});
  }
  network_.inject(start, packet);
}

void StorePort::send_acknowledgement(const Packet& packet, std::uint32_t bytes, emu::Time now) {
  Packet back;
  back.source = node_;
  back.destination = packet.source;
  back.put = packet.put;
  back.bytes = bytes;
  back.put_bytes = packet.put_bytes;
  back.core = packet.core;
  back.kind = PacketKind::kAck;
  back.scale_out = packet.scale_out;
  back.refused = packet.refused;
  back.issued = packet.issued;
  back.journey = packet.journey;
  back.choice = network_.choice(node_, packet.source, choices_++);
  back.number = packets_++;
  if (fabric::CausalLog* log = network_.causal_log()) {
    log->add(node_, {.at = now,
                     .key = fabric::causal_key(node_, back.number),
                     .amount = fabric::causal_key(packet.source, packet.number),
                     .kind = fabric::CausalKind::kAckLeave});
  }
  network_.inject(now, back);
}

// Cuts at the destination's block borders, so that no atomic block is spread over two packets.
std::uint32_t StorePort::next_packet_bytes(const Put& put) const {
  const Piece& piece = put.pieces[put.piece];
  const fabric::PathRules& rules = network_.rules(put.head.scale_out);
  const std::uint32_t left = piece.bytes - put.offset;
  const auto into = static_cast<std::uint32_t>((piece.to + put.offset) % rules.block_bytes);
  const std::uint32_t most = put.packet_bytes == 0 ? rules.packet_bytes : put.packet_bytes;
  if (left <= most && (into + left <= most || into == 0)) return left;
  return std::min(left, most > into ? most - into : rules.block_bytes - into);
}

// The pipe's: of one packet.
emu::Time StorePort::packet_time(const Put& put, std::uint32_t bytes) const {
  if (!put.head.journey.posted) return costs_.core_store.serialisation(bytes);
  return std::max(costs_.nic->rate.serialisation(bytes), costs_.nic->packet);
}

bool StorePort::is_unlimited(const Put& put) const {
  if (!put.head.journey.posted) return costs_.core_store.unlimited();
  return costs_.nic->rate.unlimited() && costs_.nic->packet == 0;
}

// Reserves the pipe for the whole put and schedules its first packet's departure. Returns the time
// at which the last packet will have left.
emu::Time StorePort::stream(std::uint32_t number, Pipe& pipe, emu::Time start) {
  Put& put = puts_[number];
  const emu::Time first = std::max(start, pipe.free);
  if (is_unlimited(put)) {
    pipe.free = first;
    shard_.schedule(node_, node_, first, kInjectKind).as<std::uint32_t>() = number;
    return first;
  }
  emu::Time total = 0;
  std::uint32_t first_bytes = 0;
  const std::uint32_t piece = put.piece;
  const std::uint32_t offset = put.offset;
  while (put.piece < put.pieces.size()) {
    const std::uint32_t bytes = next_packet_bytes(put);
    if (first_bytes == 0) first_bytes = bytes;
    total += packet_time(put, bytes);
    put.offset += bytes;
    if (put.offset == put.pieces[put.piece].bytes) {
      ++put.piece;
      put.offset = 0;
    }
  }
  put.piece = piece;
  put.offset = offset;
  pipe.free = first + total;
  shard_.schedule(node_, node_, first + packet_time(put, first_bytes), kInjectKind)
      .as<std::uint32_t>() = number;
  return pipe.free;
}

void StorePort::inject(std::uint32_t number, emu::Time now) {
  send_next(number, now);
  const Put& put = puts_[number];
  if (is_unlimited(put)) {
    while (put.piece < put.pieces.size()) send_next(number, now);
  } else if (put.piece < put.pieces.size()) {
    shard_.schedule(node_, node_, now + packet_time(put, next_packet_bytes(put)), kInjectKind)
        .as<std::uint32_t>() = number;
  }
}

// The bytes of a packet, as far as its destination has them.
std::span<const std::byte> StorePort::source_of(const Put& put, const Packet& packet) {
  if (put.piece >= put.immediate_from) return {put.immediate.data() + put.offset, packet.bytes};
  const fabric::Address from = put.pieces[put.piece].from + put.offset;
  const fabric::Memory& memory = memory_;
  if (memory.carried(packet.address, packet.bytes) == packet.bytes) {
    return memory.view(from, packet.bytes);
  }
  carried_.clear();
  memory.for_each_carried(packet.address, packet.bytes,
                          [&](std::uint64_t offset, std::uint64_t bytes) {
                            const auto stretch = memory.view(from + offset, bytes);
                            carried_.insert(carried_.end(), stretch.begin(), stretch.end());
                          });
  return carried_;
}

void StorePort::send_next(std::uint32_t number, emu::Time now) {
  Put& put = puts_[number];
  const Piece& piece = put.pieces[put.piece];
  const std::uint32_t bytes = next_packet_bytes(put);
  Packet packet = put.head;
  packet.address = piece.to + put.offset;
  packet.bytes = bytes;
  packet.offset = put.bytes;
  packet.first = put.packets == 0;
  packet.signal = put.signal && put.piece + 1 == put.pieces.size();
  if (packet.signal && put.signal_adds) packet.kind = PacketKind::kAtomicAdd;
  if (put.signal && !packet.signal) packet.by_proxy = false;  // data is written by the NIC
  packet.number = packets_++;
  const bool per_packet = network_.rules(packet.scale_out).choice_per == Fabric::PACKET;
  packet.choice = network_.choice(node_, packet.destination,
                                  per_packet && put.packets > 0 ? choices_++ : put.choice_base);
  if (put.given != nullptr) {
    const auto at = static_cast<std::uint32_t>(memory_.carried(piece.from, put.offset));
    packet.payload = shard_.share_payload(packet.destination, put.given, at,
                                          memory_.carried(packet.address, bytes));
    if (shard_.is_local(packet.destination)) packet.in_buffer = at;
  } else {
    // All devices have the same regions, so this one knows what the destination could keep.
    const bool whole = bytes == packet.put_bytes && packet.kind == PacketKind::kPut;
    packet.payload = shard_.send_payload(packet.destination, source_of(put, packet),
                                         whole ? memory_.row_to_adopt(packet.address, bytes) : 0);
  }
  fabric::CausalLog* log = network_.causal_log();
  if (log != nullptr && packet.kind != PacketKind::kGetReply) {
    log->add(node_, {.at = now,
                     .key = fabric::causal_key(node_, packet.number),
                     .amount = bytes,
                     .other = serial(number),
                     .kind = fabric::CausalKind::kLeave,
                     .detail = static_cast<std::uint8_t>(packet.signal ? 1 : 0)});
  }
  ++put.packets;
  put.bytes += bytes;
  put.offset += bytes;
  if (put.offset == piece.bytes) {
    ++put.piece;
    put.offset = 0;
    if (put.given != nullptr) shard_.buffers().release(std::exchange(put.given, nullptr));
  }
  network_.inject(now, packet);
}

std::uint32_t StorePort::acknowledge(std::uint32_t number) {
  free_.push_back(number);
  puts_[number].serial = 0;  // its handles know by this that it is over
  return puts_[number].head.core;
}

}  // namespace orrery::devices
