// Message passing: data, then a flag that says so. Who saw the flag, may it find old data?
#include "litmus/rules.h"

namespace orrery::litmus {

namespace {

enum class Between { kNothing, kFence, kQuiet };

template <Between between>
emu::Task message(Core& core, Scene& scene) {
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), scene.row_bytes());
    co_await core.put(1, scene.data(), scene.source(), scene.row_bytes());
    if (between == Between::kFence) co_await core.fence();
    if (between == Between::kQuiet) co_await core.quiet();
    co_await core.store(1, scene.flag(), std::uint32_t{1});
  } else {
    co_await Scene::see(core, scene.flag());
    scene.note(Scene::look(core, scene.data(), scene.row_bytes()));
  }
}

// A flag is one packet, so that order_kind does not matter.
Verdict without_fence(const Fabric& fabric) {
  const bool kept = orders_a_core(fabric);
  return {
      {true, !kept, !kept},
      scope_text(fabric) + (kept ? " orders the puts of a core" : ": puts overtake each other")};
}
Verdict with_fence(const Fabric&) {
  return {{true, false, false}, "a fence orders the puts of a core on every fabric"};
}
Verdict with_quiet(const Fabric&) {
  return {{true, false, false}, "later puts of a core come after what its quiet waited for"};
}

}  // namespace

std::vector<Program> message_passing() {
  const std::vector<std::string> outcomes = {"data new", "data old", "data torn"};
  return {
      {"message", "put data, put flag: flag seen, and the data?", 2, 1, outcomes,
       message<Between::kNothing>, without_fence},
      {"message-fence", "put data, fence, put flag", 2, 1, outcomes, message<Between::kFence>,
       with_fence},
      {"message-quiet", "put data, quiet, put flag", 2, 1, outcomes, message<Between::kQuiet>,
       with_quiet},
  };
}

}  // namespace orrery::litmus
