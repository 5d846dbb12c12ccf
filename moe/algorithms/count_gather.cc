#include "moe/algorithms/count_gather.h"

#include <fmt/format.h>

#include <vector>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

CountGather::CountGather(const Problem& problem, Layout& layout)
    : problem_(problem), devices_(problem.devices), experts_(problem.placement.experts()) {
  const std::uint64_t bytes = std::uint64_t{devices_} * experts_ * 4;
  gathered_ = layout.flat(bytes);
  host_ = layout.flat(bytes);
  signals_ = layout.flat(std::uint64_t{devices_} * 4);
}

// Experts are split over the cores: each is a column of the routing map, summed over the tokens.
emu::Task CountGather::histogram(Core& core, fabric::Address ids, std::uint32_t entries) const {
  core.phase("histogram");
  const auto experts = core.array<std::int32_t>(ids, entries);
  const Share mine = share(experts_, core.count(), core.index());
  std::vector<std::uint32_t> rows(mine.size(), 0);
  for (const std::int32_t id : experts) {
    const auto expert = static_cast<std::uint32_t>(id);
    if (id >= 0 && expert >= mine.begin && expert < mine.end) ++rows[expert - mine.begin];
  }
  co_await core.stream(experts.size_bytes());
  co_await core.compute(mine.size() * core.costs().vector(entries / problem_.top_k()));
  for (std::uint32_t i = 0; i < mine.size(); ++i) {
    core.write(row(gathered_, core.rank()) + (mine.begin + i) * 4ull, rows[i]);
  }
}

emu::Task CountGather::gather(Core& core, std::uint32_t call, bool fenced) const {
  core.phase("count exchange");
  const fabric::Address own = row(gathered_, core.rank());
  const Share mine = share(devices_, core.count(), core.index());
  PutHandle last;
  for (std::uint32_t i = mine.begin; i < mine.end; ++i) {
    const std::uint32_t peer = (core.rank() + i) % devices_;
    if (peer != core.rank()) {
      last = co_await core.put(peer, own, own, experts_ * 4);
      if (fenced) co_await core.fence();
    }
    co_await core.store(peer, signals_ + core.rank() * 4ull, call);
  }
  co_await core.wait_local(last);
}

emu::Task CountGather::wait_counts(Core& core, std::uint32_t call) const {
  const Share mine = share(devices_, core.count(), core.index());
  const auto writer = [this, &core, mine](std::uint32_t slot) {
    const std::uint32_t source = mine.begin + slot;
    const std::uint32_t turn = (core.rank() + devices_ - source) % devices_;
    return fmt::format("device {} core {} (signal of its counts)", source,
                       share_of(devices_, core.count(), turn));
  };
  const Slots slots{signals_ + mine.begin * 4ull, 4, 4, mine.size(), 0};
  const devices::Predicate called = devices::word_equals(call);
  co_await core.wait_until(slots, called, writer);
}

void CountGather::read(Core& core) const {
  const Share mine = share(devices_, core.count(), core.index());
  const auto found =
      core.array<std::uint32_t>(row(gathered_, mine.begin), std::uint64_t{mine.size()} * experts_);
  const fabric::Address to = row(host_, mine.begin);
  for (std::size_t i = 0; i < found.size(); ++i) core.write(to + i * 4, found[i]);
}

void CountGather::assume(devices::DeviceProcess& device, std::uint32_t rows) const {
  for (std::uint64_t i = 0; i < std::uint64_t{devices_} * experts_; ++i) {
    device.memory().store(host_ + i * 4, rows);
  }
}

}  // namespace orrery::moe
