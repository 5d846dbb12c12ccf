#include "emu/workers.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "emu/idle.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

// Debian's TBB is not built for the thread sanitizer, which does not see that a task is made before
// it runs. Nothing of Orrery's own is hidden: its threads meet through atomics of their own.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libtbb.so\nrace_top:orrery::emu::Workers::Helper::operator()\n";
}
#endif

namespace orrery::emu {

namespace {
constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

// TBB hands a task from the thread that makes it to the one that runs it. Debian's is not built for
// the thread sanitizer, which has to be told.
void hand_over([[maybe_unused]] void* what) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(what);
#endif
}
void receive([[maybe_unused]] void* what) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(what);
#endif
}
}  // namespace

Workers::Workers(int threads, std::size_t items, bool yields)
    : threads_(static_cast<std::size_t>(threads)),
      yields_(yields),
      limit_(tbb::global_control::max_allowed_parallelism,
             std::max<std::size_t>(threads_, std::thread::hardware_concurrency())),
      arena_(threads),
      taken_(items) {
  hand_over(this);
  arena_.execute([this] {
    for (std::size_t number = 1; number < threads_; ++number) helpers_.run(Helper{this, number});
  });
}

Workers::~Workers() {
  window_.store(kEnd, std::memory_order_release);
  // A helper that no thread has begun yet is begun, and ended, here.
  arena_.execute([this] { helpers_.wait(); });
  ended_.load(std::memory_order_acquire);  // for the thread sanitizer, too
}

void Workers::Helper::operator()() const {
  receive(workers);
  std::uint64_t seen = 0;
  for (;;) {
    Idle idle(workers->yields_);
    std::uint64_t window;
    while ((window = workers->window_.load(std::memory_order_acquire)) == seen) idle.pause();
    if (window == kEnd) break;
    seen = window;
    workers->take_part(number, window);
  }
  workers->ended_.fetch_add(1, std::memory_order_release);
}

// Begins with the items that the same thread had before, whose memory is in its cache, and then
// takes what the others have left. A late helper finds nothing: the work never waits for one.
void Workers::take_part(std::size_t thread, std::uint64_t window) {
  const std::size_t first = thread * taken_.size() / threads_;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    const std::size_t item = (first + i) % taken_.size();
    // Only from the window before: a helper that slept through this one must not touch the next.
    std::uint64_t before = window - 1;
    if (!taken_[item].compare_exchange_strong(before, window, std::memory_order_acq_rel)) continue;
    try {
      (*work_)(item);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_acq_rel);
  }
}

void Workers::run(const std::function<void(std::size_t)>& work) {
  work_ = &work;
  const std::uint64_t window = window_.load(std::memory_order_relaxed) + 1;
  window_.store(window, std::memory_order_release);
  take_part(0, window);
  Idle idle(yields_);
  while (done_.load(std::memory_order_acquire) != window * taken_.size()) idle.pause();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace orrery::emu
