#include "moe/algorithms/rank_barrier.h"

#include <fmt/format.h>

#include "devices/device_process.h"

namespace orrery::moe {

using devices::Core;
using devices::Slots;

RankBarrier::RankBarrier(const NodeGroups& groups, std::uint32_t cores, bool fenced, Layout& layout)
    : groups_(groups),
      devices_(groups.groups() * groups.members()),
      cores_(cores),
      fenced_(fenced),
      words_(layout.flat(std::uint64_t{kPoints} * devices_ * cores * 4)) {}

std::vector<RankBarrier::Stage> RankBarrier::stages(std::uint32_t device) const {
  const std::uint32_t group = groups_.group_of(device);
  const std::uint32_t member = groups_.member_of(device);
  Stage rail{{}, "rail barrier"};
  Stage node{{}, groups_.groups() == 1 ? "rank barrier" : "node barrier"};
  // Beginning with the next one: not all devices write to the first one at once.
  for (std::uint32_t i = 1; i < groups_.groups(); ++i) {
    rail.peers.push_back(groups_.device((group + i) % groups_.groups(), member));
  }
  // Itself at last: what its cores have put to itself is known in the same way.
  for (std::uint32_t i = 1; i <= groups_.members(); ++i) {
    node.peers.push_back(groups_.device(group, (member + i) % groups_.members()));
  }
  if (groups_.groups() == 1) return {node};
  return {rail, node};
}

emu::Task RankBarrier::enter(Core& core, std::uint32_t call) const {
  core.phase("start barrier");
  if (core.index() == 0) co_await meet(core, kEnter, call, 0);
  co_await core.barrier();
}

emu::Task RankBarrier::leave(Core& core, std::uint32_t call, std::uint32_t posting,
                             bool flush) const {
  core.phase("flush");
  if (core.index() < posting) {
    const std::vector<Stage> all = stages(core.rank());
    for (const Stage& stage : all) {
      for (const std::uint32_t peer : stage.peers) {
        if (!core.device().posts_to(peer)) continue;
        co_await core.signal(peer, word(kLeave, core.rank(), core.index()), call, fenced_);
      }
    }
  }
  if (flush) co_await core.release_stores();
  co_await core.barrier();
  core.phase("end barrier");
  if (core.index() == 0) co_await meet(core, kLeave, call, posting);
}

// Of one core. A stage begins when the one before is over: so the last one tells of all devices,
// save where words of single cores, which tell of their puts alone, take its place.
emu::Task RankBarrier::meet(Core& core, Point point, std::uint32_t call,
                            std::uint32_t posting) const {
  const std::vector<Stage> all = stages(core.rank());
  for (const Stage& stage : all) {
    for (const std::uint32_t peer : stage.peers) {
      if (posting > 0 && core.device().posts_to(peer)) continue;  // its cores have
      co_await core.store(peer, word(point, core.rank(), 0), call);
    }
    for (const std::uint32_t peer : stage.peers) {
      const auto writer = [peer, &stage](std::uint32_t lane) {
        return fmt::format("device {} core {} ({})", peer, lane, stage.name);
      };
      const std::uint32_t lanes = posting > 0 && core.device().posts_to(peer) ? posting : 1;
      const Slots slots{word(point, peer, 0), 4, 4, lanes, 0};
      const devices::Predicate ready = devices::word_equals(call);
      co_await core.wait_until(slots, ready, writer);
    }
  }
}

}  // namespace orrery::moe
