// Threads that run a window's work together: the calling thread and TBB workers that stay for the
// whole of a run, so that a window costs two exchanged counters and no new task.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace orrery::emu {

class Workers {
 public:
  /// `threads` (≥ 1), the caller's own included, for windows of `items` pieces of work each.
  /// `yields`: there are fewer cores than threads, so that waiting gives the core away.
  Workers(int threads, std::size_t items, bool yields);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// One window: calls work(item) once for each item, on some thread, and returns when all have
  /// returned. What was written before happens before the work, and the work before what comes
  /// after. Throws what the work threw (the first one noticed). `work` must not call this.
  void run(const std::function<void(std::size_t)>& work);

 private:
  // A TBB task: takes part until the end.
  struct Helper {
    Workers* workers;
    std::size_t number;
    void operator()() const;
  };

  void take_part(std::size_t thread, std::uint64_t window);

  const std::size_t threads_;
  const bool yields_;
  tbb::global_control limit_;  // or TBB would not give more threads than cores
  tbb::task_arena arena_;
  tbb::task_group helpers_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<std::atomic<std::uint64_t>> taken_;  // by item: the last window of it
  alignas(64) std::atomic<std::uint64_t> window_{0};
  alignas(64) std::atomic<std::uint64_t> done_{0};  // items, of all windows so far
  std::atomic<std::size_t> ended_{0};               // helpers
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace orrery::emu
