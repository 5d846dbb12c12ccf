// The conservative parallel discrete-event engine (design R2–R4): sequential within a process,
// windows between processes.
//
//   Engine engine(processes, transport_or_null, {.lps = n});
//   engine.place(lp, process) for every lp; engine.attach(lp, object) for the local ones;
//   engine.set_lookahead(smallest latency of a link that crosses processes);
//   engine.schedule(from, to, time, kind).as<Body>() = …;
//   engine.run();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emu/digest.h"
#include "emu/event.h"
#include "emu/event_queue.h"
#include "emu/exchange.h"
#include "emu/logical_process.h"
#include "emu/payload_store.h"
#include "emu/process_group.h"
#include "emu/trace_sink.h"
#include "emu/transport.h"

namespace orrery::emu {

class Engine final : private ExchangeSink {
 public:
  /// `transport` may be null when there is one process; the caller keeps all three alive.
  Engine(const ProcessGroup& processes, Transport* transport, LpId lps);
  ~Engine() override;

  void place(LpId lp, int process) { process_of_[lp] = process; }
  void attach(LpId lp, LogicalProcess* object) { objects_[lp] = object; }
  int process_of(LpId lp) const { return process_of_[lp]; }
  bool is_local(LpId lp) const { return process_of_[lp] == rank_; }
  /// Events between processes are later than the sender's now by at least this much.
  void set_lookahead(Time lookahead) { lookahead_ = lookahead; }
  /// Virtual time beyond which run() stops.
  void set_limit(Time limit) { limit_ = limit; }

  Time now() const { return now_; }

  /// A new event from local `from`; the caller fills in its body at once. `time` ≥ now; to another
  /// process at least lookahead later, or InvariantError: the sender lied about a link's latency.
  Event& schedule(LpId from, LpId to, Time time, std::uint32_t kind);

  /// Payload for the device `to`: captured now, whoever owns `to`. The result goes with the
  /// descriptor. `capacity`: what its buffer should hold, for a destination that may keep the
  /// buffer.
  std::uint64_t send_payload(LpId to, std::span<const std::byte> bytes, std::uint64_t capacity = 0);
  /// At `to`'s process: the buffer behind a reference made for it by `from`'s process.
  Buffer* take_payload(LpId from, std::uint64_t reference);
  /// The same for bytes of a buffer of this process that stays as it is: a local `to` shares it
  /// instead of getting a copy, and reads them at `offset`.
  std::uint64_t share_payload(LpId to, Buffer* buffer, std::uint64_t offset, std::uint64_t bytes);
  BufferPool& buffers() { return buffers_; }

  enum class Outcome { kQuiescent, kLimit };
  /// Executes events until none is left anywhere (kQuiescent), or the next is beyond the limit.
  Outcome run();

  std::uint64_t executed() const { return executed_; }
  /// Per logical process, over its executed event keys; 0 for one that executed nothing here.
  std::uint64_t digest_of(LpId lp) const { return counts_[lp] == 0 ? 0 : digests_[lp].value(); }
  /// Where local logical processes report what they did; null for nowhere. Changes no virtual time.
  void set_trace(TraceSink* trace) { trace_ = trace; }
  TraceSink* trace() const { return trace_; }

  /// Milestones: numbers that grow. `reached(m)` is called on every process, at the same point of
  /// the run for all of them (so that it may use collectives), when the smallest of what all
  /// processes have announced has grown to m. It must not schedule events.
  void set_milestones(std::function<void(std::int64_t)> reached) { reached_ = std::move(reached); }
  void announce(std::int64_t milestone) { announced_ = milestone; }

  /// Called about once a second of host time while running, with the process's virtual now.
  void set_progress(std::function<void(Time)> progress) { progress_ = std::move(progress); }

 private:
  void on_event(const Event& event) override { queue_.push_copy(event); }
  void on_payload(int source, std::uint64_t number, std::span<const std::byte> bytes) override {
    payloads_.arrived(source, number, bytes);
  }
  void execute_before(Time horizon);
  void reach(std::int64_t milestone);
  void settle();
  void tick();

  const ProcessGroup& processes_;
  const int rank_;
  EventQueue queue_;
  BufferPool buffers_;
  PayloadStore payloads_;
  Transport* const transport_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<int> process_of_;
  std::vector<LogicalProcess*> objects_;
  std::vector<std::uint64_t> sequences_;
  std::vector<RunningDigest> digests_;
  std::vector<std::uint64_t> counts_;
  std::function<void(Time)> progress_;
  std::function<void(std::int64_t)> reached_;
  TraceSink* trace_ = nullptr;
  std::int64_t announced_ = 0;
  std::int64_t all_announced_ = 0;
  Time now_ = 0;
  Time lookahead_ = kNever;
  Time limit_ = kNever;
  Time earliest_sent_ = kNever;
  std::uint64_t executed_ = 0;
  std::int64_t last_tick_ = 0;
};

}  // namespace orrery::emu
