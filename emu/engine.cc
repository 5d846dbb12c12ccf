#include "emu/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "emu/errors.h"

namespace orrery::emu {

namespace {
// Events between two looks at the exchange and the clock.
constexpr std::uint64_t kPollMask = (1 << 12) - 1;

std::int64_t host_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
}  // namespace

Engine::Engine(const ProcessGroup& processes, Transport* transport, LpId lps,
               Parallelism parallelism)
    : processes_(processes),
      rank_(processes.rank()),
      transport_(transport),
      tables_(lps),
      blocks_(processes.local_size() * parallelism.threads <
              static_cast<int>(std::thread::hardware_concurrency())),
      last_tick_(host_seconds()) {
  if (processes.size() > 1) {
    exchange_ =
        std::make_unique<Exchange>(processes, *transport, static_cast<ExchangeSink&>(*this));
  }
  if (parallelism.shards < 1 || parallelism.shards > Shard::kMost) {
    throw InvariantError("an engine has 1 to 64 shards");
  }
  for (int index = 0; index < parallelism.shards; ++index) {
    shards_.push_back(
        std::make_unique<Shard>(index, parallelism.shards, processes.size(), tables_, blocks_));
  }
  if (shards_.size() == 1) {
    shards_.front()->exchange_ = exchange_.get();
  } else if (parallelism.threads > 1) {
    workers_ = std::make_unique<Workers>(parallelism.threads, shards_.size(),
                                         processes.local_size() * parallelism.threads >
                                             static_cast<int>(std::thread::hardware_concurrency()));
  }
}

Engine::~Engine() = default;

void Engine::set_lookahead(Time lookahead) {
  lookahead_ = lookahead;
  for (const auto& shard : shards_) shard->lookahead_ = lookahead;
}

void Engine::set_trace(TraceSink* trace) {
  for (const auto& shard : shards_) shard->trace_ = trace;
}

Time Engine::now() const {
  Time now = 0;
  for (const auto& shard : shards_) now = std::max(now, shard->now_);
  return now;
}

std::uint64_t Engine::executed() const {
  std::uint64_t executed = 0;
  for (const auto& shard : shards_) executed += shard->executed_;
  return executed;
}

void Engine::on_event(const Event& event) {
  shards_[static_cast<std::size_t>(tables_.places[event.target])]->queue_.push_copy(event);
}

void Engine::on_payload(int source, std::uint64_t number, std::span<const std::byte> bytes) {
  if (shards_.size() == 1) {
    shards_.front()->payloads_.arrived(static_cast<std::size_t>(source), number, bytes);
    return;
  }
  Shard::PayloadTag tag;
  std::memcpy(&tag, bytes.data(), sizeof(tag));
  Shard& shard = *shards_[tag.to];
  shard.payloads_.arrived(shard.lane(source, static_cast<int>(tag.from)), tag.number,
                          bytes.subspan(sizeof(tag)));
}

// One shard; between processes only what is before the window's end.
void Engine::execute_before(Time horizon) {
  Shard& shard = *shards_.front();
  while (shard.queue_.min_time() < horizon) {
    shard.step();
    if (!exchange_) reach(announced_.load(std::memory_order_relaxed));
    if ((shard.executed_ & kPollMask) == 0) tick();
  }
}

void Engine::tick() {
  if (exchange_) exchange_->poll();
  if (!progress_) return;
  const std::int64_t second = host_seconds();
  if (second == last_tick_) return;
  last_tick_ = second;
  progress_(now());
}

// Before anything that blocks in MPI: a peer may still be flushing the credits it returned at the
// end of the window, and with RMA emulated in software that needs this process's progress.
void Engine::settle() {
  if (!exchange_) return;
  transport_->flush();
  std::int64_t none = 0;
  transport_->reduce_min({&none, 1});
}

void Engine::reach(std::int64_t milestone) {
  if (milestone == all_announced_) return;
  settle();
  all_announced_ = milestone;
  if (reached_) reached_(milestone);
}

Engine::Outcome Engine::run() {
  return exchange_ || shards_.size() > 1 ? run_in_windows() : run_sequentially();
}

// One process: no windows at all.
Engine::Outcome Engine::run_sequentially() {
  execute_before(limit_);
  return shards_.front()->queue_.empty() ? Outcome::kQuiescent : Outcome::kLimit;
}

Engine::Outcome Engine::run_in_windows() {
  for (;;) {
    std::int64_t minimum[2] = {kNever, announced_.load(std::memory_order_relaxed)};
    for (const auto& shard : shards_) {
      minimum[0] = std::min(minimum[0], shard->earliest());
      shard->earliest_sent_ = kNever;
      if (exchange_) shard->hand_over(*exchange_);
    }
    if (exchange_) exchange_->close_window(minimum);
    reach(minimum[1]);
    if (minimum[0] == kNever || minimum[0] >= limit_) {
      settle();
      return minimum[0] == kNever ? Outcome::kQuiescent : Outcome::kLimit;
    }
    Time horizon = minimum[0] > kNever - lookahead_ ? kNever : minimum[0] + lookahead_;
    horizon = std::min(horizon, limit_);
    if (shards_.size() == 1) {
      execute_before(horizon);
    } else {
      run_shards(horizon);
    }
    tick();
  }
}

void Engine::run_shards(Time horizon) {
  // What was sent between windows, or before the first.
  for (const auto& shard : shards_) shard->tell_targets(shards_);
  ++window_;
  const auto run = [this, horizon](std::size_t shard) {
    shards_[shard]->run_window(shards_, window_, horizon);
  };
  if (workers_) {
    workers_->run(run);
  } else {
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) run(shard);
  }
}

}  // namespace orrery::emu
