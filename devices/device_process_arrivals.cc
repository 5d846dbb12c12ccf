// What comes to a device from the fabric: gets to serve, packets that become visible, by way of a
// hub, a NIC or a proxy or at once, and acknowledgements.
#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/device_process.h"

namespace orrery::devices {

namespace {
constexpr std::uint32_t kSmallWrite = 64;
constexpr std::size_t kTornReadsKept = 8;
}  // namespace

// The reply takes its bytes at once: what was there before an addition.
void DeviceProcess::serve(const fabric::Packet& packet, bool adds, emu::Time now) {
  const Verb verb = adds ? Verb::kRemoteFetchAdd : Verb::kGet;
  if (check_log_ != nullptr) {
    check_log_->add({.at = now,
                     .address = packet.address,
                     .bytes = packet.put_bytes,
                     .peer = rank_at(packet.source),
                     .core = packet.core,
                     .kind = CheckKind::kServe,
                     .detail = static_cast<std::uint8_t>(verb)});
  }
  port_.reply(packet, now);
  if (!adds) return;
  const auto before = std::as_const(memory_).load<std::uint32_t>(packet.address);
  memory_.store(packet.address, before + packet.offset);
  last_writes_[packet.address / kGranule] = {packet.source, packet.core, now};
}

void DeviceProcess::deliver_to_hub(const fabric::Packet& packet, emu::Time now) {
  fabric::Packet placed = packet;
  DestinationHub::Place place;
  const emu::Time served = hub_->take(placed, now, place);
  if (place.is_new && check_log_ != nullptr) {
    check_log_->add({.at = now,
                     .address = place.rows_on,
                     .other = put_identity(packet),
                     .bytes = place.words_on,
                     .peer = rank_at(packet.source),
                     .kind = CheckKind::kPlaced});
  }
  shard_.schedule(node_, node_, served, kHubKind).as<fabric::Packet>() = placed;
}

void DeviceProcess::deliver(const fabric::Packet& packet, emu::Time now) {
  if (packet.logical) return deliver_to_hub(packet, now);
  const bool by_nic = packet.scale_out && packet.tells && !packet.by_proxy && nic_ != nullptr;
  if (by_nic && costs_.nic->atomic + costs_.nic->atomic_gap > 0) {
    atomics_free_ = std::max(now, atomics_free_) + costs_.nic->atomic_gap;
    shard_.schedule(node_, node_, atomics_free_ + costs_.nic->atomic, kAtomicKind)
        .as<fabric::Packet>() = packet;
  } else {
    visibility_.deliver(packet);
  }
}

void DeviceProcess::on_message(const fabric::Packet& packet) {
  proxy_->receive(packet, shard_.now());
}

void DeviceProcess::applied(const fabric::Packet& packet) { visibility_.apply(packet); }

void DeviceProcess::on_visible(const fabric::Packet& packet, fabric::Address address,
                               std::uint32_t bytes) {
  read_log_.written(address, bytes);
  if (keeps_causes()) log_visible(packet, address, bytes);
  if (check_log_ != nullptr) note_visible(packet, address, bytes);
  if (packet.kind != fabric::PacketKind::kAtomicAdd && packet.put_bytes > kSmallWrite) {
    check_claims(packet, address, bytes);
  }
  if (bytes <= kSmallWrite) {
    last_writes_[address / kGranule] = {packet.source, packet.core, shard_.now()};
  }
  if (address >= watched_last_ || address + bytes <= watched_first_) return;
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    const Watch& watch = watches_[i];
    if (address < watch.last && address + bytes > watch.first) {
      cores_[watch.core].visible(packet, address, bytes);
    }
  }
}

void DeviceProcess::log_visible(const fabric::Packet& packet, fabric::Address address,
                                std::uint32_t bytes) {
  const fabric::CausalKey key = fabric::causal_key(packet.source, packet.number);
  log(0, {.key = key, .kind = fabric::CausalKind::kVisible});
  if (memory_.has_rows(address)) row_writers_[memory_.row_begin(address)] = key;
  if (bytes > kSmallWrite) return;
  for (fabric::Address word = address / kWord; word * kWord < address + bytes; ++word) {
    Writers& writers = writers_[word];
    std::move_backward(writers.writes.begin(), writers.writes.end() - 1, writers.writes.end());
    const auto held = std::as_const(memory_).view(word * kWord, kWord);
    writers.writes[0].packet = key;
    std::memcpy(&writers.writes[0].value, held.data(), kWord);
    writers.count = std::min(writers.count + 1, Writers::kKept);
  }
}

fabric::CausalKey DeviceProcess::latest_writer(fabric::Address address, std::uint32_t bytes) const {
  if (!memory_.has_rows(address)) {
    const Writers* writers = bytes <= kSmallWrite ? writers_of(address) : nullptr;
    return writers == nullptr ? Core::kNoPacket : writers->writes[0].packet;
  }
  const fabric::CausalKey* writer = row_writers_.find(memory_.row_begin(address));
  return writer == nullptr ? Core::kNoPacket : *writer;
}

void DeviceProcess::note_visible(const fabric::Packet& packet, fabric::Address address,
                                 std::uint32_t bytes) {
  const bool reply = packet.kind == fabric::PacketKind::kGetReply;
  check_log_->add({.at = shard_.now(),
                   .address = address,
                   .other = put_identity(packet),
                   .bytes = bytes,
                   .peer = rank_at(packet.source),
                   .core = packet.core,
                   .kind = CheckKind::kVisible,
                   .detail = static_cast<std::uint8_t>((packet.first ? CheckRecord::kFirst : 0) |
                                                       (reply ? CheckRecord::kGetReply : 0))});
}

void DeviceProcess::on_complete(const fabric::Packet& packet) {
  if (shard_.trace() != nullptr) {
    shard_.trace()->on_message(node_, origin_of(packet), packet.put_bytes, shard_.now());
  }
  if (packet.kind == fabric::PacketKind::kGetReply) cores_[packet.put].replied(packet);
  if (!torn_puts_.empty()) torn_puts_.erase(fabric::causal_key(packet.source, packet.put));
}

// Nobody may have said of these bytes that they were complete while they were on their way.
void DeviceProcess::check_claims(const fabric::Packet& packet, fabric::Address address,
                                 std::uint32_t bytes) {
  const auto torn =
      memory_.has_rows(address)
          ? read_log_.shown_in_row(memory_.row_begin(address), address, bytes, packet, shard_.now())
          : read_log_.shown(address, bytes, packet, shard_.now());
  if (!torn) return;
  if (!torn_puts_.insert(fabric::causal_key(packet.source, packet.put)).second) return;
  ++torn_read_count_;
  if (torn_reads_.size() < kTornReadsKept) torn_reads_.push_back(*torn);
}

void DeviceProcess::on_acknowledge(const fabric::Packet& packet) {
  if (packet.kind == fabric::PacketKind::kGetReply) return;
  if (packet.scale_out && nic_ != nullptr && costs_.nic->acknowledge > 0) {
    shard_.schedule(node_, node_, shard_.now() + costs_.nic->acknowledge, kAcknowledgeKind)
        .as<fabric::Packet>() = packet;
  } else {
    send_acknowledgement(packet);
  }
}

void DeviceProcess::send_acknowledgement(const fabric::Packet& packet) {
  const std::uint32_t ack_bytes = rules(packet.scale_out).ack_bytes;
  if (ack_bytes > 0) {
    port_.send_acknowledgement(packet, ack_bytes, shard_.now());
    return;
  }
  const emu::Time latency = packet.path_latency;
  fabric::Packet& acknowledgement =
      shard_.schedule(node_, packet.source, shard_.now() + latency, fabric::kAcknowledgement)
          .as<fabric::Packet>();
  acknowledgement = packet;
  acknowledgement.journey.latency += latency;
}

void DeviceProcess::acknowledged(const fabric::Packet& packet) {
  const std::uint32_t serial = port_.serial(packet.put);
  const bool posted = port_.is_posted(packet.put);
  if (posted) {
    nic_->acknowledged(packet.put, shard_.now());
    if (proxy_ != nullptr) proxy_->acknowledged(packet.put, shard_.now());
  }
  const std::uint32_t core = port_.acknowledge(packet.put);
  log(core, {.key = fabric::causal_key(node_, serial),
             .amount = packet.kind == fabric::PacketKind::kAck
                           ? fabric::causal_key(packet.source, packet.number)
                           : 0,
             .kind = fabric::CausalKind::kAck});
  cores_[core].acknowledged(packet, posted);
  if (!posted) return;
  const auto next =
      std::find_if(waiting_for_room_.begin(), waiting_for_room_.end(),
                   [this](const auto& each) { return has_room(each.rank, each.queue); });
  if (next == waiting_for_room_.end()) return;
  const std::uint32_t waits = next->core;
  waiting_for_room_.erase(next);
  cores_[waits].has_room();
}

}  // namespace orrery::devices
