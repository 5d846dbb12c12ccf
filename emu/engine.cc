#include "emu/engine.h"

#include <algorithm>
#include <chrono>
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

Engine::Engine(const ProcessGroup& processes, Transport* transport, LpId lps)
    : processes_(processes),
      rank_(processes.rank()),
      buffers_(processes.local_size() < static_cast<int>(std::thread::hardware_concurrency())),
      payloads_(buffers_, processes.size()),
      transport_(transport),
      process_of_(lps, 0),
      objects_(lps, nullptr),
      sequences_(lps, 0),
      digests_(lps),
      counts_(lps, 0),
      last_tick_(host_seconds()) {
  if (processes.size() > 1) {
    exchange_ =
        std::make_unique<Exchange>(processes, *transport, static_cast<ExchangeSink&>(*this));
  }
}

Engine::~Engine() = default;

Event& Engine::schedule(LpId from, LpId to, Time time, std::uint32_t kind) {
  const EventOrder order = make_order(from, sequences_[from]++);
  const int process = process_of_[to];
  if (process == rank_) {
    if (time < now_) throw InvariantError("an event was scheduled in the past");
    return queue_.push(time, order, to, kind);
  }
  if (time < now_ + lookahead_)
    throw InvariantError("an event crosses processes below the lookahead");
  earliest_sent_ = std::min(earliest_sent_, time);
  Event& event = exchange_->send_event(process);
  event.time = time;
  event.order = order;
  event.target = to;
  event.kind = kind;
  return event;
}

std::uint64_t Engine::send_payload(LpId to, std::span<const std::byte> bytes,
                                   std::uint64_t capacity) {
  const int process = process_of_[to];
  if (process == rank_) return reinterpret_cast<std::uint64_t>(payloads_.capture(bytes, capacity));
  return exchange_->send_payload(process, bytes);
}

std::uint64_t Engine::share_payload(LpId to, Buffer* buffer, std::uint64_t offset,
                                    std::uint64_t bytes) {
  const int process = process_of_[to];
  if (process == rank_) {
    ++buffer->references;
    return reinterpret_cast<std::uint64_t>(buffer);
  }
  return exchange_->send_payload(process, {buffer->bytes() + offset, bytes});
}

Buffer* Engine::take_payload(LpId from, std::uint64_t reference) {
  const int process = process_of_[from];
  if (process == rank_) return reinterpret_cast<Buffer*>(reference);
  return payloads_.take(process, reference);
}

void Engine::execute_before(Time horizon) {
  while (queue_.min_time() < horizon) {
    std::uint32_t slot;
    const Event& event = queue_.pop(slot);
    now_ = event.time;
    const LpId target = event.target;
    digests_[target].add(static_cast<std::uint64_t>(event.time));
    digests_[target].add(event.order);
    ++counts_[target];
    objects_[target]->handle(event);
    queue_.release(slot);
    if (announced_ != all_announced_ && !exchange_) reach(announced_);
    if ((++executed_ & kPollMask) == 0) tick();
  }
}

void Engine::tick() {
  if (exchange_) exchange_->poll();
  if (!progress_) return;
  const std::int64_t second = host_seconds();
  if (second == last_tick_) return;
  last_tick_ = second;
  progress_(now_);
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
  if (!exchange_) {
    // One process: no windows at all.
    execute_before(limit_);
    return queue_.empty() ? Outcome::kQuiescent : Outcome::kLimit;
  }
  for (;;) {
    std::int64_t minimum[2] = {std::min(queue_.min_time(), earliest_sent_), announced_};
    earliest_sent_ = kNever;
    exchange_->close_window(minimum);
    reach(minimum[1]);
    if (minimum[0] == kNever || minimum[0] >= limit_) {
      settle();
      return minimum[0] == kNever ? Outcome::kQuiescent : Outcome::kLimit;
    }
    const Time horizon = minimum[0] > kNever - lookahead_ ? kNever : minimum[0] + lookahead_;
    execute_before(std::min(horizon, limit_));
    tick();
  }
}

}  // namespace orrery::emu
