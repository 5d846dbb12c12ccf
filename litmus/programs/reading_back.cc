// What a writer may conclude from what it has done: quiet and a third device, gets, and two devices
// that write and then read.
#include "litmus/rules.h"

namespace orrery::litmus {

namespace {

Verdict after_quiet(const Fabric& fabric) {
  const bool seen = fabric.ack_at() == Fabric::VISIBLE;
  return {{true, !seen, !seen},
          ack_text(fabric) + (seen ? ": what was acknowledged is visible to everybody"
                                   : ": what was acknowledged may not be visible yet")};
}

// --- Quiet, then a word through a third device ---

template <bool quiet>
emu::Task third_device(Core& core, Scene& scene) {
  const std::uint32_t bytes = scene.row_bytes();
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), bytes);
    co_await core.put(2, scene.data(), scene.source(), bytes);
    if (quiet) co_await core.quiet();
    co_await core.store(1, scene.flag(), std::uint32_t{1});
  } else if (core.rank() == 1) {
    co_await Scene::see(core, scene.flag());
    co_await core.store(2, scene.flag(), std::uint32_t{1});
  } else {
    co_await Scene::see(core, scene.flag());
    scene.note(Scene::look(core, scene.data(), bytes));
  }
}

Verdict judge_third(const Fabric&) {
  return {{true, true, true}, "nothing orders the puts of two devices"};
}

// --- Put, then get the same bytes ---

template <bool quiet>
emu::Task put_get(Core& core, Scene& scene) {
  if (core.rank() != 0) co_return;
  const std::uint32_t bytes = scene.row_bytes();
  Scene::fill(core, scene.source(), bytes);
  co_await core.put(1, scene.data(), scene.source(), bytes);
  if (quiet) co_await core.quiet();
  if (!quiet) co_await scene.pause(core, 4000);
  co_await core.get(1, scene.data(), scene.data(1), bytes);
  scene.note(Scene::look(core, scene.data(1), bytes));
}

Verdict judge_put_get(const Fabric&) {
  return {{true, true, true}, "a get is answered as memory stands: nothing orders it after puts"};
}

// --- Store buffering: two devices write to each other, then look ---

template <bool quiet>
emu::Task both_write(Core& core, Scene& scene) {
  const std::uint32_t other = 1 - core.rank();
  co_await core.store(other, scene.flag(core.rank()), std::uint32_t{1});
  if (quiet) co_await core.quiet();
  co_await scene.pause(core, 6000);
  scene.note(static_cast<int>(Scene::word(core, scene.flag(other))), core.rank());
}

int both_write_outcome(const Scene& scene) {
  const int seen = scene.noted(0) + scene.noted(1);
  return seen == 2 ? 0 : seen == 1 ? 1 : 2;
}

Verdict judge_both_write(const Fabric&) {
  return {{true, true, true}, "a put returns when it is issued, long before it is visible"};
}
Verdict judge_both_write_quiet(const Fabric& fabric) {
  Verdict verdict = after_quiet(fabric);
  verdict.allowed[1] = true;
  return verdict;
}

}  // namespace

std::vector<Program> reading_back() {
  const std::vector<std::string> outcomes = {"data new", "data old", "data torn"};
  const std::vector<std::string> both = {"both see the other", "one does", "neither does"};
  return {
      {"third-device", "put data to C, put a flag to B; B passes it on to C", 3, 1, outcomes,
       third_device<false>, judge_third},
      {"third-device-quiet", "put data to C, quiet, put a flag to B; B passes it on to C", 3, 1,
       outcomes, third_device<true>, after_quiet},
      {"put-get", "put data and get it back", 2, 1, outcomes, put_get<false>, judge_put_get},
      {"put-quiet-get", "put data, quiet, get it back", 2, 1, outcomes, put_get<true>, after_quiet},
      {"store-buffering", "two devices put a flag to each other, then look at their own", 2, 1,
       both, both_write<false>, judge_both_write, both_write_outcome},
      {"store-buffering-quiet", "the same with a quiet before they look", 2, 1, both,
       both_write<true>, judge_both_write_quiet, both_write_outcome},
  };
}

}  // namespace orrery::litmus
