// FlashMoE with decoupled signals: what processors stage for devices that are not near goes through
// a sender, which puts it at once and signals a group when its last put is issued. So the fence of
// a group is the one of the core that put it, which is what fences are about on every fabric.
#include <map>
#include <vector>

#include "moe/algorithms/flashmoe.h"

namespace orrery::moe::flashmoe {

using devices::Core;

struct Flashmoe::Groups {
  std::map<std::uint32_t, Group> dispatched;
  std::map<std::uint32_t, Group> returned;
};

emu::Task Flashmoe::sender(Core& core, std::uint32_t iteration) {
  core.phase("send");
  const std::uint32_t self = core.rank();
  const std::uint32_t index = core.index() - processors();
  const std::uint32_t locals = std::max(local_experts(self), 1u);
  Groups groups;
  for (std::uint32_t n = 0; n < number_of_parcels(); ++n) {
    if (is_near(self, parcel(self, n).device)) continue;
    const std::uint32_t group = group_of_parcel(self, n);
    if (sender_of(group) == index) ++groups.dispatched[group].open;
  }
  for (std::uint32_t unit = 0; unit < locals * problem_.devices; ++unit) {
    if (is_near(self, at_.source_of(unit))) continue;
    const std::uint32_t group = group_of_unit(self, unit);
    if (sender_of(group) == index) ++groups.returned[group].open;
  }
  Outgoing out;
  for (std::uint32_t slot = 0; !groups.dispatched.empty() || !groups.returned.empty(); ++slot) {
    Note found;
    co_await next_note(core, at_.note(1 + index, slot), iteration, found);
    co_await send_note(core, iteration, found, groups, out);
  }
  core.write(at_.tail(1 + index), std::uint32_t{0});
  co_await give_up_sources(core, out);
}

emu::Task Flashmoe::send_note(Core& core, std::uint32_t iteration, const Note& note, Groups& groups,
                              Outgoing& out) {
  const bool dispatched = note.kind == Note::kReady;
  const std::uint32_t number =
      dispatched ? group_of_parcel(core.rank(), note.unit) : group_of_unit(core.rank(), note.unit);
  auto& of_phase = dispatched ? groups.dispatched : groups.returned;
  Group& group = of_phase.at(number);
  if (dispatched) {
    const Parcel& to = parcel(core.rank(), note.unit);
    const Signal signal = parcel_signal(core, iteration, to);
    if (signal.behind_put) co_await put_parcel(core, iteration, to, out);
    group.has_puts |= signal.behind_put;
    if (!drops(core, note.unit)) group.signals.push_back(signal);
    --group.open;
  } else if (note.kind == Note::kPacket) {
    group.blocks += note.block;
    --group.open;
  } else {
    co_await put_block(core, iteration, note.unit, note.block, out);
    group.has_puts = true;
    group.signals.push_back(block_signal(core, iteration, note.unit, note.block));
    --group.blocks;
  }
  if (group.open > 0 || group.blocks > 0) co_return;
  co_await end_group(core, group, !dispatched);
  of_phase.erase(number);
}

emu::Task Flashmoe::end_group(Core& core, Group& group, bool back) {
  if (group.has_puts) co_await order(core, false, back);
  for (const Signal& signal : group.signals) co_await tell(core, signal);
}

}  // namespace orrery::moe::flashmoe
