#include "moe/algorithms/ring_queue.h"

#include <fmt/format.h>

#include <cstring>

namespace orrery::moe {

using devices::Core;

namespace {

std::uint32_t word_at(Core& core, fabric::Address address) {
  std::uint32_t value = 0;
  std::memcpy(&value, core.probe(address, sizeof(value)).data(), sizeof(value));
  return value;
}

}  // namespace

bool Watch::is_ready(Core& core) const {
  for (std::uint32_t word = 0; word < words; ++word) {
    if (word_at(core, address + word * 4ull) < at_least) return false;
  }
  return true;
}

emu::Task Watch::wait(Core& core) const {
  const auto who = [this](std::uint32_t) { return writer(); };
  const devices::Slots slots{address, 4, 4, words};
  const devices::Predicate ready = devices::word_at_least(at_least);
  co_await core.wait_until(slots, ready, who);
}

std::string Watch::writer() const {
  return fmt::format("device {} ({}, channel {})", peer, what, channel);
}

bool SendRing::has_room(Core& core) const {
  const Watch wanted = room();
  return wanted.at_least == 0 || wanted.is_ready(core);
}

Watch SendRing::room() const {
  const std::uint64_t needed = std::uint64_t{sent_} + family_->size().chunk;
  const std::uint64_t tokens = family_->size().tokens;
  return {family_->head(channel_, here_),
          1,
          needed > tokens ? static_cast<std::uint32_t>(needed - tokens) : 0,
          peer_,
          channel_,
          "takes rows from its ring"};
}

emu::Task SendRing::wait_room(Core& core) const {
  const Watch wanted = room();
  if (wanted.at_least > 0) co_await wanted.wait(core);
}

emu::Task SendRing::publish(Core& core, std::uint32_t rows) const {
  const std::uint64_t more = rows;
  co_await core.atomic_add(peer_, family_->tail(channel_, there_), more);
}

std::uint32_t ReceiveRing::filled(Core& core) const {
  return word_at(core, family_->tail(channel_, here_)) - taken_;
}

Watch ReceiveRing::more_than(std::uint32_t rows) const {
  return {family_->tail(channel_, here_),       1, taken_ + rows + 1, peer_, channel_,
          "puts rows into the ring it has here"};
}

emu::Task ReceiveRing::wait_filled(Core& core, std::uint32_t rows) const {
  const Watch wanted = more_than(rows - 1);
  co_await wanted.wait(core);
}

emu::Task ReceiveRing::credit(Core& core, bool last, std::uint32_t least) {
  if (owed() == 0 || (!last && owed() < least)) co_return;
  const std::uint64_t more = owed();
  told_ = taken_;
  if (last_.serial != 0) co_await core.wait_complete(last_);
  last_ = co_await core.atomic_add(peer_, family_->head(channel_, there_), more);
}

}  // namespace orrery::moe
