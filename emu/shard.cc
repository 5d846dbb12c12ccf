#include "emu/shard.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emu/errors.h"

namespace orrery::emu {

Shard::Shard(int index, int shards, int processes, LpTables& tables, BlockSource& blocks)
    : index_(index),
      shards_(shards),
      tables_(tables),
      buffers_(index, shards, blocks),
      payloads_(buffers_, static_cast<std::size_t>(processes) * static_cast<std::size_t>(shards)),
      sent_payloads_(static_cast<std::size_t>(processes) * static_cast<std::size_t>(shards), 0) {
  for (auto& outboxes : outboxes_) outboxes.resize(static_cast<std::size_t>(shards));
}

void Shard::in_the_past() { throw InvariantError("an event was scheduled in the past"); }

Event& Shard::schedule_elsewhere(EventOrder order, LpId to, Time time, std::uint32_t kind) {
  if (time < now_ + lookahead_) {
    throw InvariantError("an event crosses processes or shards below the lookahead");
  }
  earliest_sent_ = std::min(earliest_sent_, time);
  const Place place = tables_.places[to];
  Event* event;
  if (!is_elsewhere(place)) {
    sent_to_ |= std::uint64_t{1} << place;
    event = &outboxes_[filling_][static_cast<std::size_t>(place)].emplace_back();
  } else if (exchange_ != nullptr) {
    event = &exchange_->send_event(process_at(place));
  } else {
    staged_events_.push_back({process_at(place), {}});
    event = &staged_events_.back().event;
  }
  event->time = time;
  event->order = order;
  event->target = to;
  event->kind = kind;
  return *event;
}

std::uint64_t Shard::send_payload(LpId to, std::span<const std::byte> bytes,
                                  std::uint64_t capacity) {
  const Place place = tables_.places[to];
  if (!is_elsewhere(place)) {
    return reinterpret_cast<std::uint64_t>(payloads_.capture(bytes, capacity));
  }
  const int process = process_at(place);
  if (exchange_ != nullptr) return exchange_->send_payload(process, bytes);
  const int shard = tables_.shards[to];
  const PayloadTag tag{static_cast<std::uint32_t>(index_), static_cast<std::uint32_t>(shard),
                       sent_payloads_[lane(process, shard)]++};
  const auto size = static_cast<std::uint32_t>(sizeof(tag) + bytes.size());
  Buffer* buffer = buffers_.acquire(BufferPool::class_of(size));
  std::memcpy(buffer->bytes(), &tag, sizeof(tag));
  if (!bytes.empty()) std::memcpy(buffer->bytes() + sizeof(tag), bytes.data(), bytes.size());
  staged_payloads_.push_back({process, buffer, size});
  return tag.number;
}

// Between windows.
void Shard::hand_over(Exchange& exchange) {
  for (const StagedPayload& staged : staged_payloads_) {
    exchange.send_payload(staged.process, {staged.buffer->bytes(), staged.bytes});
    buffers_.release(staged.buffer);
  }
  staged_payloads_.clear();
  for (const StagedEvent& staged : staged_events_) {
    exchange.send_event(staged.process) = staged.event;
  }
  staged_events_.clear();
}

Buffer* Shard::take_payload(LpId from, std::uint64_t reference) {
  const Place place = tables_.places[from];
  if (!is_elsewhere(place)) return reinterpret_cast<Buffer*>(reference);
  const int process = process_at(place);
  return payloads_.take(lane(process, shards_ > 1 ? tables_.shards[from] : 0), reference);
}

std::uint64_t Shard::share_payload(LpId to, Buffer* buffer, std::uint64_t offset,
                                   std::uint64_t bytes) {
  if (is_elsewhere(tables_.places[to])) return send_payload(to, {buffer->bytes() + offset, bytes});
  buffer->retain();
  return reinterpret_cast<std::uint64_t>(buffer);
}

// That something lies here for them, of the window that ends or from before the one that begins.
void Shard::tell_targets(std::span<const std::unique_ptr<Shard>> shards) {
  std::uint64_t targets = std::exchange(sent_to_, 0) | buffers_.returned_to();
  for (; targets != 0; targets &= targets - 1) {
    shards[static_cast<std::size_t>(std::countr_zero(targets))]->senders_[filling_].fetch_or(
        std::uint64_t{1} << index_, std::memory_order_relaxed);
  }
}

// A window's events touch devices all over the shard's memory: each would miss the cache by itself.
void Shard::prefetch_before(Time horizon) {
  constexpr std::size_t kTogether = 128;  // what they touch should fit a cache
  queue_.find_before(horizon, kTogether, due_);
  if (due_.size() < 2) return;
  for (const std::uint32_t slot : due_) prefetch_bytes(&queue_.at(slot), sizeof(Event));
  for (const int step : {0, 1}) {
    for (const std::uint32_t slot : due_) {
      const Event& event = queue_.at(slot);
      tables_.objects[event.target]->prefetch(event, step);
    }
  }
}

void Shard::run_window(std::span<const std::unique_ptr<Shard>> shards, std::uint64_t window,
                       Time horizon) {
  const std::size_t reading = (window + 1) & 1;
  filling_ = window & 1;
  buffers_.fill(filling_);
  std::uint64_t senders = senders_[reading].exchange(0, std::memory_order_relaxed);
  for (; senders != 0; senders &= senders - 1) {
    Shard& sender = *shards[static_cast<std::size_t>(std::countr_zero(senders))];
    auto& outbox = sender.outboxes_[reading][static_cast<std::size_t>(index_)];
    for (const Event& event : outbox) queue_.push_copy(event);
    outbox.clear();
    buffers_.take_back(sender.buffers_, reading);
  }
  prefetch_before(horizon);
  while (queue_.min_time() < horizon) step();
  tell_targets(shards);
}

}  // namespace orrery::emu
