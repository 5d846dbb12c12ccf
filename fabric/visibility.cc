#include "fabric/visibility.h"

#include <algorithm>
#include <cstring>

#include "emu/errors.h"
#include "emu/random.h"

namespace orrery::fabric {

namespace {
// Channels are cores or queue pairs, of which a device has at most 1024.
constexpr std::uint64_t kUnorderedChannel = 0xfff;

emu::Buffer* buffer_of(const Packet& packet) {
  return reinterpret_cast<emu::Buffer*>(packet.payload);
}
}  // namespace

Visibility::Visibility(emu::Engine& engine, const Fabric& fabric, Memory& memory,
                       VisibilitySink& sink, NodeId node, std::uint32_t sources,
                       std::uint32_t channels, const Adversary& adversary)
    : shard_(engine.shard_of(node)),
      memory_(memory),
      sink_(sink),
      node_(node),
      block_bytes_(fabric.atomic_block_bytes()),
      order_kind_(fabric.order_kind()),
      ack_at_(fabric.ack_at()),
      channels_per_source_(channels),
      adversary_(adversary),
      flags_fast_(emu::mix64(adversary.seed) % 4 != 0),
      channels_(fabric.order_scope() == Fabric::NONE ? 0 : std::size_t{sources} * channels) {}

std::uint64_t Visibility::put_key(const Packet& packet) const {
  return (static_cast<std::uint64_t>(packet.source) << 44) |
         (static_cast<std::uint64_t>(packet.ordered ? packet.channel : kUnorderedChannel) << 32) |
         packet.sequence;
}

void Visibility::deliver(const Packet& packet) {
  Packet local = packet;
  local.payload =
      reinterpret_cast<std::uint64_t>(shard_.take_payload(packet.source, packet.payload));
  if (ack_at_ == Fabric::RECEIVED) count_received(local);
  if (adversary_.on && local.kind != PacketKind::kAtomicAdd) {
    split(local);
  } else {
    arrive(local);
  }
}

void Visibility::count_received(const Packet& packet) {
  if (packet.bytes == packet.put_bytes) {
    sink_.on_acknowledge(packet);
    return;
  }
  Assembly& assembly = assemblies_[put_key(packet)];
  assembly.received += packet.bytes;
  if (assembly.received == packet.put_bytes) sink_.on_acknowledge(packet);
}

// Every atomic block of the packet goes its own way, late by a hash of what it is. In three seeds
// of four puts of one block, which flags are, are not delayed at all: a flag that overtakes its
// data shows best so.
void Visibility::split(const Packet& packet) {
  emu::Buffer* buffer = buffer_of(packet);
  const std::uint64_t key = emu::combine64(emu::combine64(adversary_.seed, node_), put_key(packet));
  const bool flag = packet.put_bytes <= block_bytes_;
  std::uint32_t done = 0;
  while (done < packet.bytes) {
    const Address address = packet.address + done;
    const auto room = static_cast<std::uint32_t>(block_bytes_ - address % block_bytes_);
    const std::uint32_t bytes = std::min(room, packet.bytes - done);
    const std::uint64_t hash = emu::combine64(key, address / block_bytes_);
    const auto delay =
        flag && flags_fast_
            ? 0
            : static_cast<emu::Time>(hash % (static_cast<std::uint64_t>(adversary_.delay) + 1));
    if (done != 0) buffer->retain();
    Packet& fragment =
        shard_.schedule(node_, node_, shard_.now() + delay, kBlockVisible).as<Packet>();
    fragment = packet;
    fragment.address = address;
    fragment.bytes = bytes;
    fragment.offset = packet.offset + done;
    fragment.in_buffer =
        packet.in_buffer + static_cast<std::uint32_t>(memory_.carried(packet.address, done));
    done += bytes;
  }
}

void Visibility::block_due(const Packet& fragment) { arrive(fragment); }

void Visibility::arrive(const Packet& fragment) {
  if (!fragment.ordered) {
    arrive_unordered(fragment);
  } else if (order_kind_ == Fabric::WHOLE) {
    arrive_whole(fragment);
  } else {
    arrive_first_fragment(fragment);
  }
}

void Visibility::expose(const Packet& fragment) {
  emu::Buffer* buffer = buffer_of(fragment);
  const std::byte* bytes = buffer->bytes() + fragment.in_buffer;
  if (fragment.kind == PacketKind::kAtomicAdd) {
    std::uint64_t operand;
    std::memcpy(&operand, bytes, sizeof(operand));
    memory_.store(fragment.address, memory_.load<std::uint64_t>(fragment.address) + operand);
  } else {
    if (fragment.in_buffer == 0 && memory_.adopt(fragment.address, buffer, fragment.bytes)) {
      buffer = nullptr;
    } else {
      memory_.write_carried(fragment.address, fragment.bytes, bytes);
    }
  }
  if (buffer != nullptr) shard_.buffers().release(buffer);
  sink_.on_visible(fragment, fragment.address, fragment.bytes);
}

void Visibility::arrive_unordered(const Packet& fragment) {
  expose(fragment);
  if (fragment.bytes != fragment.put_bytes) {
    const std::uint64_t key = put_key(fragment);
    Assembly& assembly = assemblies_[key];
    assembly.visible += fragment.bytes;
    if (assembly.visible != fragment.put_bytes) return;
    assemblies_.erase(key);
  }
  finish(fragment);
}

void Visibility::hold(Channel& channel, const Packet& fragment) {
  channel.held.push_back(fragment);
  ++held_count_;
}

void Visibility::arrive_whole(const Packet& fragment) {
  Channel& channel = channels_[channel_index(fragment)];
  if (fragment.sequence != channel.next) {
    hold(channel, fragment);
  } else if (accept_whole(channel, fragment) && !channel.held.empty()) {
    release_held(channel, fragment.journey);
  }
}

// True if the fragment completes its put.
bool Visibility::accept_whole(Channel& channel, const Packet& fragment) {
  expose(fragment);
  channel.visible += fragment.bytes;
  if (channel.visible != fragment.put_bytes) return false;
  channel.visible = 0;
  if (ack_at_ == Fabric::RECEIVED) assemblies_.erase(put_key(fragment));
  finish(fragment);
  ++channel.next;
  return true;
}

void Visibility::arrive_first_fragment(const Packet& fragment) {
  Channel& channel = channels_[channel_index(fragment)];
  if (fragment.first && fragment.sequence != channel.next) {
    hold(channel, fragment);
  } else if (accept_first_fragment(channel, fragment) && !channel.held.empty()) {
    release_held(channel, fragment.journey);
  }
}

bool Visibility::accept_first_fragment(Channel& channel, const Packet& fragment) {
  expose(fragment);
  const std::uint64_t key = put_key(fragment);
  Assembly& assembly = assemblies_[key];
  assembly.visible += fragment.bytes;
  if (assembly.visible != fragment.put_bytes) return false;
  assemblies_.erase(key);
  finish(fragment);
  // A put completes only with its first fragment, which waited for the put before: so in order.
  ++channel.next;
  return true;
}

// The put before is complete now; what waited for it owes its visibility to that one's journey.
void Visibility::release_held(Channel& channel, const Journey& cause) {
  std::size_t index = 0;
  while (index < channel.held.size()) {
    if (channel.held[index].sequence != channel.next) {
      ++index;
      continue;
    }
    Packet fragment = channel.held[index];
    channel.held.erase(channel.held.begin() + static_cast<std::ptrdiff_t>(index));
    --held_count_;
    fragment.journey = cause;
    const bool completed = order_kind_ == Fabric::WHOLE ? accept_whole(channel, fragment)
                                                        : accept_first_fragment(channel, fragment);
    if (completed) index = 0;
  }
}

void Visibility::finish(const Packet& fragment) {
  sink_.on_complete(fragment);
  if (ack_at_ == Fabric::VISIBLE) sink_.on_acknowledge(fragment);
}

}  // namespace orrery::fabric
