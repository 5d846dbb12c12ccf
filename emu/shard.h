// A group of logical processes that one thread runs at a time: their event queue, their clock and
// their buffers. Everything that a logical process asks of the engine goes through its shard.
//
// An engine has one shard, or several that advance in windows side by side. What one sends to
// another lies in an outbox until the next window, and is later than the window's end.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emu/buffer_pool.h"
#include "emu/digest.h"
#include "emu/event.h"
#include "emu/event_queue.h"
#include "emu/exchange.h"
#include "emu/logical_process.h"
#include "emu/payload_store.h"
#include "emu/trace_sink.h"

namespace orrery::emu {

/// Where a logical process is: a shard of this process, or another process.
using Place = std::int32_t;
constexpr Place place_of_shard(int shard) { return shard; }
constexpr Place place_of_process(int process) { return -1 - process; }
constexpr bool is_elsewhere(Place place) { return place < 0; }
constexpr int process_at(Place place) { return -1 - place; }

/// What the shards of an engine share: tables by logical process. While running, each entry is
/// written by the shard of its logical process alone.
struct LpTables {
  explicit LpTables(LpId lps)
      : places(lps, place_of_shard(0)),
        shards(lps, 0),
        objects(lps, nullptr),
        sequences(lps, 0),
        digests(lps),
        counts(lps, 0) {}

  std::vector<Place> places;
  std::vector<int> shards;  // in whatever process
  std::vector<LogicalProcess*> objects;
  std::vector<std::uint64_t> sequences;
  std::vector<RunningDigest> digests;
  std::vector<std::uint64_t> counts;
};

class Shard {
 public:
  static constexpr int kMost = 64;  // of an engine

  /// Number `index` of `shards` in each of `processes` processes.
  Shard(int index, int shards, int processes, LpTables& tables, BlockSource& blocks);

  // --- For logical processes ---
  Time now() const { return now_; }

  /// A new event from `from`, which is of this shard; the caller fills in its body at once. `time`
  /// ≥ now; to another shard or process at least lookahead later, or InvariantError: the sender
  /// lied about a link's latency.
  Event& schedule(LpId from, LpId to, Time time, std::uint32_t kind) {
    const EventOrder order = make_order(from, tables_.sequences[from]++);
    if (tables_.places[to] != index_) return schedule_elsewhere(order, to, time, kind);
    if (time < now_) in_the_past();
    return queue_.push(time, order, to, kind);
  }

  /// Payload for the device `to`: captured now, whoever owns `to`. The result goes with the
  /// descriptor. `capacity`: what its buffer should hold, for a destination that may keep the
  /// buffer.
  std::uint64_t send_payload(LpId to, std::span<const std::byte> bytes, std::uint64_t capacity = 0);
  /// At `to`'s shard: the buffer behind a reference made for it by `from`.
  Buffer* take_payload(LpId from, std::uint64_t reference);
  /// The same for bytes of a buffer of this process that stays as it is: a `to` in this process
  /// shares it instead of getting a copy, and reads them at `offset`.
  std::uint64_t share_payload(LpId to, Buffer* buffer, std::uint64_t offset, std::uint64_t bytes);
  BufferPool& buffers() { return buffers_; }
  /// Is `lp` in this process?
  bool is_local(LpId lp) const { return !is_elsewhere(tables_.places[lp]); }
  /// Where to report what was done; null for nowhere.
  TraceSink* trace() const { return trace_; }

 private:
  friend class Engine;

  // Sent to another process in a window of several shards: the engine hands them over at its end.
  // The buffer begins with the payload's tag.
  struct StagedPayload {
    int process;
    Buffer* buffer;
    std::uint32_t bytes;
  };
  struct PayloadTag {
    std::uint32_t from;  // shards
    std::uint32_t to;
    std::uint64_t number;  // among what that shard sends to this one
  };
  struct StagedEvent {
    int process;
    Event event;
  };

  // The payloads that shard `from` of `process` sends here are counted by themselves.
  std::size_t lane(int process, int from) const {
    return static_cast<std::size_t>(process) * static_cast<std::size_t>(shards_) +
           static_cast<std::size_t>(from);
  }
  Event& schedule_elsewhere(EventOrder order, LpId to, Time time, std::uint32_t kind);
  [[noreturn]] static void in_the_past();
  /// Executes the next event; there is one.
  void step() {
    std::uint32_t slot;
    const Event& event = queue_.pop(slot);
    now_ = event.time;
    const LpId target = event.target;
    tables_.digests[target].add(static_cast<std::uint64_t>(event.time));
    tables_.digests[target].add(event.order);
    ++tables_.counts[target];
    tables_.objects[target]->handle(event);
    queue_.release(slot);
    ++executed_;
  }
  /// A window of several: takes in what the others sent in the window before, then executes.
  void run_window(std::span<const std::unique_ptr<Shard>> shards, std::uint64_t window,
                  Time horizon);
  void hand_over(Exchange& exchange);
  void tell_targets(std::span<const std::unique_ptr<Shard>> shards);
  void prefetch_before(Time horizon);
  Time earliest() const { return std::min(queue_.min_time(), earliest_sent_); }

  const int index_;
  const int shards_;
  LpTables& tables_;
  EventQueue queue_;
  BufferPool buffers_;
  PayloadStore payloads_;
  Time now_ = 0;
  Time lookahead_ = kNever;
  Time earliest_sent_ = kNever;  // to other shards and processes since the last window's end
  std::uint64_t executed_ = 0;
  TraceSink* trace_ = nullptr;
  // One shard in one of several processes sends at once.
  Exchange* exchange_ = nullptr;
  std::vector<std::uint64_t> sent_payloads_;  // by process and shard there
  std::vector<StagedEvent> staged_events_;
  std::vector<StagedPayload> staged_payloads_;
  // Of even and odd windows, by target: one is filled while the targets read the other.
  std::array<std::vector<std::vector<Event>>, 2> outboxes_;
  // A bit per shard: to whom this one sent in this window; who sent to this one, by window.
  std::uint64_t sent_to_ = 0;
  std::array<std::atomic<std::uint64_t>, 2> senders_{};
  std::size_t filling_ = 0;
  std::vector<std::uint32_t> due_;  // slots of events of this window
};

}  // namespace orrery::emu
