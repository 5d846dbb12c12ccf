#include "fabric/visibility.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emu/errors.h"

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
      rules_{path_rules(fabric, false), path_rules(fabric, true)},
      channels_per_source_(channels),
      adversary_(adversary),
      channels_(std::size_t{sources} * channels) {}

std::uint64_t Visibility::put_key(const Packet& packet) const {
  return (static_cast<std::uint64_t>(packet.source) << 44) |
         (static_cast<std::uint64_t>(packet.ordered ? packet.channel : kUnorderedChannel) << 32) |
         packet.sequence;
}

void Visibility::deliver(const Packet& packet) {
  Packet local = packet;
  local.payload =
      reinterpret_cast<std::uint64_t>(shard_.take_payload(packet.source, packet.payload));
  if (rules(local).ack_at == Fabric::RECEIVED) count_received(local);
  if (adversary_.on) {
    split(local);
  } else {
    arrive(local);
  }
}

void Visibility::count_received(const Packet& packet) {
  if (packet.kind == PacketKind::kGetReply) return;
  const bool alone = packet.bytes == packet.put_bytes;
  Assembly* assembly = alone ? nullptr : &assemblies_[put_key(packet)];
  if (alone || assembly->received == 0) ++fences_[core_key(packet)].open[packet.epoch];
  if (!alone) {
    assembly->received += packet.bytes;
    if (assembly->received != packet.put_bytes) return;
  }
  sink_.on_acknowledge(packet);
}

// Every atomic block of the packet goes its own way; an atomic is one, whatever its address.
void Visibility::split(const Packet& packet) {
  emu::Buffer* buffer = buffer_of(packet);
  const std::uint32_t block_bytes = rules(packet).block_bytes;
  std::uint32_t done = 0;
  while (done < packet.bytes) {
    const Address address = packet.address + done;
    const auto room = static_cast<std::uint32_t>(block_bytes - address % block_bytes);
    const bool whole = packet.kind == PacketKind::kAtomicAdd || packet.signal;
    Packet fragment = packet;
    fragment.address = address;
    fragment.bytes = whole ? packet.bytes : std::min(room, packet.bytes - done);
    fragment.offset = packet.offset + done;
    fragment.in_buffer =
        packet.in_buffer + static_cast<std::uint32_t>(memory_.carried(packet.address, done));
    if (done != 0) buffer->retain();
    const emu::Time due = shard_.now() + adversary_.late(node_, fragment, block_bytes);
    shard_.schedule(node_, node_, due, kBlockVisible).as<Packet>() = fragment;
    done += fragment.bytes;
  }
}

void Visibility::block_due(const Packet& fragment) { arrive(fragment); }

void Visibility::hold(std::vector<Packet>& held, const Packet& fragment) {
  held.push_back(fragment);
  ++held_count_;
}

// --- Fences ---

bool Visibility::is_fenced(const Packet& fragment) const {
  if (rules(fragment).ack_at != Fabric::RECEIVED || fragment.kind == PacketKind::kGetReply)
    return false;
  const auto& open = fences_.at(core_key(fragment)).open;
  return std::any_of(open.begin(), open.end(), [&fragment](const auto& puts) {
    return static_cast<std::int16_t>(puts.first - fragment.epoch) < 0;  // epochs wrap
  });
}

void Visibility::arrive(const Packet& fragment) {
  if (is_fenced(fragment)) {
    hold(fences_[core_key(fragment)].held, fragment);
  } else {
    pass(fragment);
  }
}

// Lets go what waited for a put of an earlier epoch.
void Visibility::put_is_visible(const Packet& fragment) {
  Fences& fences = fences_[core_key(fragment)];
  const auto puts = fences.open.find(fragment.epoch);
  if (--puts->second > 0) return;
  fences.open.erase(puts);
  std::vector<Packet> held = std::exchange(fences.held, {});
  held_count_ -= held.size();
  for (Packet& each : held) {
    each.journey = fragment.journey;
    arrive(each);
  }
}

// --- Channels ---

void Visibility::pass(const Packet& fragment) {
  if (!fragment.ordered) {
    arrive_unordered(fragment);
  } else if (rules(fragment).order_kind == Fabric::WHOLE) {
    arrive_whole(fragment);
  } else if (rules(fragment).order_kind == Fabric::FIRST_FRAGMENT) {
    arrive_first_fragment(fragment);
  } else {
    arrive_signals(fragment);
  }
}

void Visibility::expose(const Packet& fragment) {
  if (fragment.by_proxy) {
    sink_.on_message(fragment);
  } else {
    write(fragment);
  }
}

void Visibility::write(const Packet& fragment) {
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

// Exposes a fragment of a put of which `visible` bytes were; a signal only after all others. True
// if that was the last of the put.
bool Visibility::expose_of_put(const Packet& fragment, std::uint32_t& visible) {
  if (fragment.signal && visible + fragment.bytes != fragment.put_bytes) {
    signals_.emplace(put_key(fragment), fragment);
    ++held_count_;
    return false;
  }
  expose(fragment);
  visible += fragment.bytes;
  if (visible == fragment.put_bytes) return true;
  if (signals_.empty()) return false;
  const auto signal = signals_.find(put_key(fragment));
  if (signal == signals_.end() || visible + signal->second.bytes != fragment.put_bytes) {
    return false;
  }
  Packet last = signal->second;
  signals_.erase(signal);
  --held_count_;
  last.journey = fragment.journey;
  return expose_of_put(last, visible);
}

// For puts whose bytes no channel counts. True if the fragment completes its put.
bool Visibility::accept_assembled(const Packet& fragment) {
  if (fragment.bytes == fragment.put_bytes) {
    expose(fragment);
    return true;
  }
  const std::uint64_t key = put_key(fragment);
  if (!expose_of_put(fragment, assemblies_[key].visible)) return false;
  assemblies_.erase(key);
  return true;
}

void Visibility::arrive_unordered(const Packet& fragment) {
  if (accept_assembled(fragment)) finish(fragment);
}

void Visibility::arrive_whole(const Packet& fragment) {
  Channel& channel = channels_[channel_index(fragment)];
  if (fragment.sequence != channel.next) {
    hold(channel.held, fragment);
  } else if (accept_whole(channel, fragment) && !channel.held.empty()) {
    release_held(channel, fragment.journey);
  }
}

// True if the fragment completes its put.
bool Visibility::accept_whole(Channel& channel, const Packet& fragment) {
  if (!expose_of_put(fragment, channel.visible)) return false;
  channel.visible = 0;
  ++channel.next;
  if (rules(fragment).ack_at == Fabric::RECEIVED) assemblies_.erase(put_key(fragment));
  finish(fragment);
  return true;
}

void Visibility::arrive_first_fragment(const Packet& fragment) {
  Channel& channel = channels_[channel_index(fragment)];
  if (fragment.first && fragment.sequence != channel.next) {
    hold(channel.held, fragment);
  } else if (accept_first_fragment(channel, fragment) && !channel.held.empty()) {
    release_held(channel, fragment.journey);
  }
}

bool Visibility::accept_first_fragment(Channel& channel, const Packet& fragment) {
  if (!accept_assembled(fragment)) return false;
  // A put completes only with its first fragment, which waited for the put before: so in order.
  ++channel.next;
  finish(fragment);
  return true;
}

void Visibility::arrive_signals(const Packet& fragment) {
  Channel& channel = channels_[channel_index(fragment)];
  if (fragment.tells && fragment.sequence != channel.next) {
    hold(channel.held, fragment);
  } else if (accept_signals(channel, fragment) && !channel.held.empty()) {
    release_held(channel, fragment.journey);
  }
}

// Puts complete in any order; `next` is the first that has not.
bool Visibility::accept_signals(Channel& channel, const Packet& fragment) {
  if (!accept_assembled(fragment)) return false;
  std::set<std::uint32_t>& complete = complete_[channel_index(fragment)];
  complete.insert(fragment.sequence);
  while (complete.erase(channel.next) > 0) ++channel.next;
  finish(fragment);
  return true;
}

bool Visibility::accept(Channel& channel, const Packet& fragment) {
  switch (rules(fragment).order_kind) {
    case Fabric::WHOLE:
      return accept_whole(channel, fragment);
    case Fabric::FIRST_FRAGMENT:
      return accept_first_fragment(channel, fragment);
    case Fabric::SIGNALS:
      break;
  }
  return accept_signals(channel, fragment);
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
    if (accept(channel, fragment)) index = 0;
  }
}

void Visibility::finish(const Packet& fragment) {
  sink_.on_complete(fragment);
  const Fabric::AckAt ack_at = rules(fragment).ack_at;
  if (ack_at == Fabric::VISIBLE) sink_.on_acknowledge(fragment);
  if (ack_at == Fabric::RECEIVED && fragment.kind != PacketKind::kGetReply) {
    put_is_visible(fragment);
  }
}

}  // namespace orrery::fabric
