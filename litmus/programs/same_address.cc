// Two puts to one address, and a source that is written again: which value stays?
#include "litmus/rules.h"

namespace orrery::litmus {

namespace {

emu::Task look_at_row(Core& core, Scene& scene) {
  if (core.rank() != 1) co_return;
  const std::uint32_t bytes = scene.long_row_bytes();
  const bool first = Scene::look(core, scene.data(), bytes, 1) == kNew;
  const bool second = Scene::look(core, scene.data(), bytes, 2) == kNew;
  scene.note(second ? 0 : first ? 1 : 2);
}

// --- Put, put ---

template <bool fence>
emu::Task put_put(Core& core, Scene& scene) {
  if (core.rank() != 0) co_return;
  const std::uint32_t bytes = scene.long_row_bytes();
  for (const std::uint32_t value : {1u, 2u}) {
    Scene::fill(core, scene.source(value), bytes, value);
    co_await core.put(1, scene.data(), scene.source(value), bytes);
    if (fence) co_await core.fence();
  }
}

Verdict judge_put_put(const Fabric& fabric) {
  if (orders_whole(fabric)) return {{true, false, false}, scope_text(fabric) + " orders them"};
  if (orders_a_core(fabric)) {
    return {{true, false, true}, kind_text(fabric) + ": only the first packet waits its turn"};
  }
  return {{true, true, true}, scope_text(fabric) + ": either may be the last, block by block"};
}

Verdict judge_put_fence_put(const Fabric&) {
  return {{true, false, false}, "a fence orders the puts of a core on every fabric"};
}

// --- A source written again ---

enum class Reuse { kAtOnce, kWhenLeft };

template <Reuse reuse>
emu::Task rewrite_source(Core& core, Scene& scene) {
  if (core.rank() != 0) co_return;
  const std::uint32_t bytes = scene.long_row_bytes();
  Scene::fill(core, scene.source(), bytes, 1);
  const devices::PutHandle handle = co_await core.put(1, scene.data(), scene.source(), bytes);
  if (reuse == Reuse::kWhenLeft) co_await core.wait_local(handle);
  co_await scene.pause(core, 4000);
  Scene::fill(core, scene.source(), bytes, 2);
}

template <Reuse reuse>
Verdict judge_source(const Fabric&) {
  if (reuse == Reuse::kWhenLeft) {
    return {{false, true, false}, "wait_local: the source has been read"};
  }
  return {{true, true, true}, "a source is read packet by packet as the put leaves its core"};
}

}  // namespace

std::vector<Program> same_address() {
  const std::vector<std::string> values = {"second stays", "first stays", "a mixture stays"};
  const std::vector<std::string> sent = {"all as rewritten", "all as put", "a mixture"};
  return {
      {"put-put", "put two rows to one address", 2, 1, values, put_put<false>, judge_put_put,
       [](const Scene& scene) { return scene.noted(); }, look_at_row},
      {"put-fence-put", "put a row, fence, put another to its address", 2, 1, values, put_put<true>,
       judge_put_fence_put, [](const Scene& scene) { return scene.noted(); }, look_at_row},
      {"source-reuse", "put a row and write its source again soon after", 2, 1, sent,
       rewrite_source<Reuse::kAtOnce>, judge_source<Reuse::kAtOnce>,
       [](const Scene& scene) { return scene.noted(); }, look_at_row},
      {"source-reuse-local", "put a row, wait_local, write its source again", 2, 1, sent,
       rewrite_source<Reuse::kWhenLeft>, judge_source<Reuse::kWhenLeft>,
       [](const Scene& scene) { return scene.noted(); }, look_at_row},
  };
}

}  // namespace orrery::litmus
