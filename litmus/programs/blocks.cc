// Atomic blocks: what of a single put is visible at once, and how a put can tell that it is all
// there.
#include <algorithm>

#include "litmus/rules.h"

namespace orrery::litmus {

namespace {

// --- A flag in the last word of the put itself ---

enum class Size { kBlock, kTwoBlocks, kTff };

std::uint32_t size_of(Size size, std::uint32_t block_bytes) {
  if (size == Size::kTff) return 512;
  return std::max(size == Size::kBlock ? block_bytes : 2 * block_bytes, std::uint32_t{8});
}

template <Size size>
emu::Task flag_inside(Core& core, Scene& scene) {
  const std::uint32_t bytes = size_of(size, scene.block_bytes());
  const Address flag = scene.data() + bytes - 4;
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), bytes);
    co_await core.put(1, scene.data(), scene.source(), bytes);
  } else {
    co_await Scene::see(core, flag);
    const bool whole = Scene::look(core, scene.data(), bytes - 4) == kNew;
    scene.note(whole ? kNew : kOld);
  }
}

template <Size size>
Verdict judge_inside(const Fabric& fabric) {
  const bool one = fabric.atomic_block_bytes() >= size_of(size, fabric.atomic_block_bytes());
  return {{true, !one},
          block_text(fabric) + (one ? ": data and flag are visible at once"
                                    : ": no rule orders the blocks of one put")};
}

// --- The first-fragment trick: the flag of message i + 1, at its front, proves message i ---

emu::Task flag_in_front(Core& core, Scene& scene) {
  const std::uint32_t bytes = scene.long_row_bytes();
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), bytes);
    co_await core.put(1, scene.data(0), scene.source(), bytes);
    co_await core.put(1, scene.data(1), scene.source(), bytes);
  } else {
    co_await Scene::see(core, scene.data(1));
    const bool before = Scene::look(core, scene.data(0), bytes) == kNew;
    const bool own = Scene::look(core, scene.data(1), bytes) == kNew;
    scene.note(before ? own ? 0 : 1 : 2);
  }
}

Verdict judge_in_front(const Fabric& fabric) {
  const bool kept = orders_a_core(fabric);
  return {{true, true, !kept},
          scope_text(fabric) + (kept ? ": the first packet of a put comes after the put before it"
                                     : ": no put proves another")};
}

// --- Two writers of one device, two flags ---

emu::Task two_writers(Core& core, Scene& scene) {
  if (core.rank() < 2) {
    co_await core.store(2, scene.flag(core.rank()), std::uint32_t{1});
  } else {
    // Each core waits for one flag and then looks at the other.
    const std::uint32_t mine = core.index();
    co_await Scene::see(core, scene.flag(mine));
    scene.note(static_cast<int>(Scene::word(core, scene.flag(1 - mine))), mine);
  }
}

int two_writers_outcome(const Scene& scene) {
  if (scene.noted(0) == 1) return scene.noted(1) == 1 ? 2 : 1;
  return scene.noted(1) == 1 ? 0 : 3;
}

Verdict judge_two_writers(const Fabric&) {
  return {{true, true, true, false},
          "nothing orders two devices; but the memory of one is the same for all its cores"};
}

// --- The same two flags on two devices ---

emu::Task two_readers(Core& core, Scene& scene) {
  const std::uint32_t rank = core.rank();
  if (rank < 2) {
    co_await core.store(2 + rank, scene.flag(rank), std::uint32_t{1});
    co_await core.store(3 - rank, scene.flag(rank), std::uint32_t{1});
  } else {
    co_await Scene::see(core, scene.flag(rank - 2));
    scene.note(static_cast<int>(Scene::word(core, scene.flag(3 - rank))), rank - 2);
  }
}

int two_readers_outcome(const Scene& scene) {
  return scene.noted(0) == 0 && scene.noted(1) == 0 ? 1 : 0;
}

Verdict judge_two_readers(const Fabric&) {
  return {{true, true}, "puts to two devices have no order between them"};
}

// --- Memory that nobody has written yet ---

emu::Task unwritten(Core& core, Scene& scene) {
  const std::uint32_t bytes = scene.row_bytes();
  if (core.rank() == 0) {
    Scene::fill(core, scene.source(), bytes);
    co_await core.put(1, scene.data(), scene.source(), bytes);
  } else {
    co_await scene.pause(core, 8000);
    bool strange = false;
    std::uint32_t fresh = 0;
    for (std::uint32_t at = 0; at < bytes; at += 4) {
      const std::uint32_t held = Scene::word(core, scene.data() + at);
      strange = strange || held > 1;
      fresh += held;
    }
    scene.note(strange ? 3 : fresh == 0 ? 0 : fresh == bytes / 4 ? 1 : 2);
  }
}

Verdict judge_unwritten(const Fabric&) {
  return {{true, true, true, false}, "memory reads as zero until it is written, block by block"};
}

}  // namespace

std::vector<Program> blocks() {
  return {
      {"flag-in-block",
       "put one atomic block with a flag at its end",
       2,
       1,
       {"data new", "data old"},
       flag_inside<Size::kBlock>,
       judge_inside<Size::kBlock>},
      {"flag-in-two-blocks",
       "put two atomic blocks with a flag at their end",
       2,
       1,
       {"data new", "data old"},
       flag_inside<Size::kTwoBlocks>,
       judge_inside<Size::kTwoBlocks>},
      {"flag-in-512",
       "put 512 bytes with a flag at their end (token-flag fusion)",
       2,
       1,
       {"data new", "data torn"},
       flag_inside<Size::kTff>,
       judge_inside<Size::kTff>},
      {"first-fragment",
       "put two messages of two packets, each with a flag at its front: the second "
       "flag seen, and the messages?",
       2,
       1,
       {"both new", "first new, second torn", "first torn"},
       flag_in_front,
       judge_in_front},
      {"two-writers",
       "two devices put a flag each; two cores of one reader wait for one and look at "
       "the other",
       3,
       2,
       {"A first", "B first", "at once", "each before the other"},
       two_writers,
       judge_two_writers,
       two_writers_outcome},
      {"two-readers",
       "two devices put a flag each to two readers, which wait for one and look at the "
       "other",
       4,
       1,
       {"one order", "each before the other"},
       two_readers,
       judge_two_readers,
       two_readers_outcome},
      {"unwritten",
       "look at memory that a put may or may not have reached",
       2,
       1,
       {"zero", "data new", "data torn", "anything else"},
       unwritten,
       judge_unwritten},
  };
}

}  // namespace orrery::litmus
