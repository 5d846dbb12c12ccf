// Data from one core, a count or a signal that tells of it: over one queue, from another core, as
// an atomic, as a signal.
#include "litmus/rules.h"

namespace orrery::litmus {

namespace {

emu::Task receive(Core& core, Scene& scene) {
  co_await Scene::see(core, scene.flag());
  scene.note(Scene::look(core, scene.data(), scene.row_bytes()));
}

Verdict verdict(bool kept, const std::string& because) { return {{true, !kept, !kept}, because}; }

// --- Core 0 puts, core 1 counts after a core barrier ---

enum class How { kOwnQueues, kOneQueue, kFence, kQuiet };

template <How how>
emu::Task other_core(Core& core, Scene& scene) {
  if (core.rank() == 1) {
    if (core.index() == 0) co_await receive(core, scene);
    co_return;
  }
  if (how == How::kOneQueue) core.use_queue(0);
  if (core.index() == 0) {
    Scene::fill(core, scene.source(), scene.row_bytes());
    co_await core.put(1, scene.data(), scene.source(), scene.row_bytes());
    if (how == How::kFence) co_await core.fence();
    if (how == How::kQuiet) co_await core.quiet();
  }
  co_await core.barrier();
  if (core.index() == 1) co_await core.store(1, scene.flag(), std::uint32_t{1});
}

template <How how>
Verdict judge_other_core(const Fabric& fabric) {
  const bool queue = how == How::kOneQueue && fabric.order_scope() == Fabric::QUEUE_PAIR;
  if (orders_a_device(fabric) || queue) {
    return verdict(true, scope_text(fabric) + ": the barrier orders issue, the fabric the rest");
  }
  if (how == How::kQuiet) {
    const bool seen = fabric.ack_at() == Fabric::VISIBLE;
    return verdict(seen,
                   ack_text(fabric) + (seen ? ": quiet and barrier make the data visible first"
                                            : ": what is acknowledged may not be visible"));
  }
  if (how == How::kFence && waits_in_fence(fabric)) {
    const bool seen = fabric.ack_at() == Fabric::VISIBLE;
    return verdict(seen, scope_text(fabric) + ", " + kind_text(fabric) + ", " + ack_text(fabric) +
                             ": a fence waits as quiet does");
  }
  return verdict(false,
                 scope_text(fabric) + ": another core's puts overtake, a barrier never drains");
}

// --- An atomic that counts ---

emu::Task atomic_after_put(Core& core, Scene& scene) {
  if (core.rank() == 1) {
    co_await receive(core, scene);
    co_return;
  }
  Scene::fill(core, scene.source(), scene.row_bytes());
  co_await core.put(1, scene.data(), scene.source(), scene.row_bytes());
  co_await core.atomic_add(1, scene.flag(), 1);
}

Verdict judge_atomic(const Fabric& fabric) {
  const bool kept = orders_a_core(fabric);
  return verdict(kept, scope_text(fabric) +
                           (kept ? ": an atomic keeps its place" : ": an atomic overtakes puts"));
}

// --- Signals: two puts, the second with a signal ---

template <bool strong>
emu::Task signalled(Core& core, Scene& scene) {
  const std::uint32_t bytes = scene.row_bytes();
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), bytes);
    co_await core.put(1, scene.data(0), scene.source(), bytes);
    if (strong) co_await core.fence();
    co_await core.put_signal(1, scene.data(1), scene.source(), bytes, scene.flag(), 1);
  } else {
    co_await Scene::see(core, scene.flag());
    const bool own = Scene::look(core, scene.data(1), bytes) == kNew;
    const bool earlier = Scene::look(core, scene.data(0), bytes) == kNew;
    scene.note(own ? earlier ? 0 : 1 : 2);
  }
}

template <bool strong>
Verdict judge_signal(const Fabric& fabric) {
  if (strong) return {{true, false, false}, "the fence before it makes a signal tell of all puts"};
  const bool kept = orders_a_core(fabric);
  return {
      {true, !kept, false},
      scope_text(fabric) + (kept ? ": a put begins after all earlier ones, and its signal ends it"
                                 : ": a signal tells of its own put alone")};
}

}  // namespace

std::vector<Program> counts() {
  const std::vector<std::string> outcomes = {"data new", "data old", "data torn"};
  return {
      {"count-other-core", "core 0 puts data, core barrier, core 1 puts the count", 2, 2, outcomes,
       other_core<How::kOwnQueues>, judge_other_core<How::kOwnQueues>},
      {"count-one-queue", "the same with both cores on one queue pair", 2, 2, outcomes,
       other_core<How::kOneQueue>, judge_other_core<How::kOneQueue>},
      {"count-fence-barrier", "core 0 puts data, fence, core barrier, core 1 puts the count", 2, 2,
       outcomes, other_core<How::kFence>, judge_other_core<How::kFence>},
      {"count-quiet-barrier", "core 0 puts data, quiet, core barrier, core 1 puts the count", 2, 2,
       outcomes, other_core<How::kQuiet>, judge_other_core<How::kQuiet>},
      {"atomic", "put data, add to a counter", 2, 1, outcomes, atomic_after_put, judge_atomic},
      {"signal-weak",
       "put a row, put another with a signal",
       2,
       1,
       {"both new", "earlier not all new", "own not all new"},
       signalled<false>,
       judge_signal<false>},
      {"signal-strong",
       "put a row, fence, put another with a signal",
       2,
       1,
       {"both new", "earlier not all new", "own not all new"},
       signalled<true>,
       judge_signal<true>},
  };
}

}  // namespace orrery::litmus
