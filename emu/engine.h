// The conservative parallel discrete-event engine (design R2–R4): sequential within a process,
// windows between processes, and windows between the shards of a process that runs on threads.
//
//   Engine engine(processes, transport_or_null, lps, {.shards = 1, .threads = 1});
//   engine.place(lp, process, shard) for every lp; engine.attach(lp, object) for the local ones;
//   engine.set_lookahead(smallest latency of a link that crosses processes or shards);
//   engine.shard_of(from).schedule(from, to, time, kind).as<Body>() = …;
//   engine.run();
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emu/buffer_pool.h"
#include "emu/event.h"
#include "emu/exchange.h"
#include "emu/logical_process.h"
#include "emu/process_group.h"
#include "emu/shard.h"
#include "emu/trace_sink.h"
#include "emu/transport.h"
#include "emu/workers.h"

namespace orrery::emu {

/// How a process runs its logical processes: the same on all processes of a run.
struct Parallelism {
  int shards = 1;   // groups of logical processes with an event queue of their own
  int threads = 1;  // that run them
};

class Engine final : private ExchangeSink {
 public:
  /// `transport` may be null when there is one process; the caller keeps all three alive.
  Engine(const ProcessGroup& processes, Transport* transport, LpId lps,
         Parallelism parallelism = {});
  ~Engine() override;

  /// Before anything is attached. All are in shard 0 of process 0 at first.
  void place(LpId lp, int process, int shard = 0) {
    tables_.places[lp] = process == rank_ ? place_of_shard(shard) : place_of_process(process);
    tables_.shards[lp] = shard;
  }
  void attach(LpId lp, LogicalProcess* object) { tables_.objects[lp] = object; }
  int process_of(LpId lp) const { return is_local(lp) ? rank_ : process_at(tables_.places[lp]); }
  bool is_local(LpId lp) const { return !is_elsewhere(tables_.places[lp]); }
  /// The shard of a local logical process.
  Shard& shard_of(LpId lp) { return *shards_[static_cast<std::size_t>(tables_.places[lp])]; }
  int shards() const { return static_cast<int>(shards_.size()); }
  /// Events between processes and shards are later than the sender's now by at least this much.
  void set_lookahead(Time lookahead);
  /// Virtual time beyond which run() stops.
  void set_limit(Time limit) { limit_ = limit; }

  /// Of the latest event executed in this process.
  Time now() const;
  /// See Shard::schedule.
  Event& schedule(LpId from, LpId to, Time time, std::uint32_t kind) {
    return shard_of(from).schedule(from, to, time, kind);
  }
  /// The blocks behind the shards' buffers.
  BlockSource& blocks() { return blocks_; }

  enum class Outcome { kQuiescent, kLimit };
  /// Executes events until none is left anywhere (kQuiescent), or the next is beyond the limit.
  Outcome run();

  /// Events, in this process.
  std::uint64_t executed() const;
  /// Per logical process, over its executed event keys; 0 for one that executed nothing here.
  std::uint64_t digest_of(LpId lp) const {
    return tables_.counts[lp] == 0 ? 0 : tables_.digests[lp].value();
  }
  /// Where local logical processes report what they did; null for nowhere. Changes no virtual time.
  /// Calls for one logical process come one after the other; those for several may come at once
  /// from several threads.
  void set_trace(TraceSink* trace);

  /// Milestones: numbers that grow. `reached(m)` is called on every process, at the same point of
  /// the run for all of them (so that it may use collectives), when the smallest of what all
  /// processes have announced has grown to m. It must not schedule events.
  void set_milestones(std::function<void(std::int64_t)> reached) { reached_ = std::move(reached); }
  void announce(std::int64_t milestone) { announced_.store(milestone, std::memory_order_relaxed); }

  /// Called about once a second of host time while running, with the process's virtual now.
  void set_progress(std::function<void(Time)> progress) { progress_ = std::move(progress); }

 private:
  void on_event(const Event& event) override;
  void on_payload(int source, std::uint64_t number, std::span<const std::byte> bytes) override;
  Outcome run_sequentially();
  Outcome run_in_windows();
  void run_shards(Time horizon);
  void execute_before(Time horizon);
  void reach(std::int64_t milestone);
  void settle();
  void tick();

  const ProcessGroup& processes_;
  const int rank_;
  Transport* const transport_;
  LpTables tables_;
  BlockSource blocks_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Workers> workers_;
  std::function<void(Time)> progress_;
  std::function<void(std::int64_t)> reached_;
  std::atomic<std::int64_t> announced_{0};
  std::int64_t all_announced_ = 0;
  Time lookahead_ = kNever;
  Time limit_ = kNever;
  std::uint64_t window_ = 0;
  std::int64_t last_tick_ = 0;
};

}  // namespace orrery::emu
