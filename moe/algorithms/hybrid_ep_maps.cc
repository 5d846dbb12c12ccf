#include "moe/algorithms/hybrid_ep_maps.h"

#include <fmt/format.h>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

namespace {
// Vector passes over the ids: owner of each, comparison within a token, prefix sum.
constexpr int kScanPasses = 3;
}  // namespace

HybridEpMaps::HybridEpMaps(const NodeGroups& groups, const ExpertPlacement& placement,
                           std::uint32_t token_bound, std::uint32_t top_k, Layout& layout)
    : groups_(groups),
      placement_(placement),
      token_bound_(token_bound),
      top_k_(top_k),
      gathered_(layout.flat(devices() * align_up(block_bytes(), 64))),
      flags_(layout.flat(devices() * 4ull)),
      tokens_(layout.flat(groups.groups() * 4ull)),
      rows_(layout.flat(std::uint64_t{groups.groups()} * token_bound * groups.members() * 4)),
      received_(layout.flat(64)) {}

// Peers are dealt to the cores. A block is one put, its flag follows it.
emu::Task HybridEpMaps::gather(Core& core, std::uint32_t call, fabric::Address ids,
                               std::uint32_t tokens) const {
  core.phase("all-gather of routing");
  const std::uint32_t me = core.rank();
  if (core.index() == 0) {
    core.write(gathered(me), tokens);
    const std::uint64_t entries = std::uint64_t{tokens} * top_k_;
    core.write_bytes(gathered(me) + 4, std::as_bytes(core.array<std::int32_t>(ids, entries)));
    co_await core.stream(entries * 4);
  }
  co_await core.barrier();
  const auto bytes = static_cast<std::uint32_t>(4 + std::uint64_t{tokens} * top_k_ * 4);
  std::vector<PutHandle> sent;
  for (std::uint32_t i = 1 + core.index(); i < devices(); i += core.count()) {
    const std::uint32_t peer = (me + i) % devices();
    sent.push_back(co_await core.put(peer, gathered(me), gathered(me), bytes));
    co_await core.signal(peer, flag(me), call, true);
  }
  for (std::uint32_t i = 1 + core.index(); i < devices(); i += core.count()) {
    const std::uint32_t peer = (me + i) % devices();
    const auto writer = [peer](std::uint32_t) {
      return fmt::format("device {} (routing of its tokens)", peer);
    };
    const Slots word{flag(peer)};
    const devices::Predicate there = devices::word_equals(call);
    co_await core.wait_until(word, there, writer);
  }
  for (const PutHandle& handle : sent) co_await core.wait_local(handle);
}

bool HybridEpMaps::has(Core& core, std::uint32_t device, std::uint32_t token,
                       std::uint32_t owner) const {
  const auto ids =
      core.array<std::int32_t>(gathered(device) + 4 + std::uint64_t{token} * top_k_ * 4, top_k_);
  for (const std::int32_t id : ids) {
    if (id >= 0 && placement_.owner(static_cast<std::uint32_t>(id)) == owner) return true;
  }
  return false;
}

// The time is that of all cores at a share of the ids each; the members whose rows are counted are
// dealt to the cores.
emu::Task HybridEpMaps::scan(Core& core) const {
  core.phase("scan");
  const std::uint32_t group = groups_.group_of(core.rank());
  const std::uint32_t place = groups_.member_of(core.rank());
  std::uint64_t entries = 0;
  for (std::uint32_t device = 0; device < devices(); ++device) {
    entries += std::uint64_t{core.load<std::uint32_t>(gathered(device))} * top_k_;
  }
  for (std::uint32_t to = core.index(); to < groups_.members(); to += core.count()) {
    const std::uint32_t owner = groups_.device(group, to);
    std::uint32_t next = 0;
    for (std::uint32_t device = 0; device < devices(); ++device) {
      const auto tokens = core.load<std::uint32_t>(gathered(device));
      const std::uint64_t first = std::uint64_t{groups_.group_of(device)} * token_bound_;
      for (std::uint32_t token = 0; token < tokens; ++token) {
        const std::uint32_t row = has(core, device, token, owner) ? next++ : kNoRow;
        if (groups_.member_of(device) != place) continue;
        core.write(rows_ + ((first + token) * groups_.members() + to) * 4, row);
      }
    }
    if (owner == core.rank()) core.write(received_, next);
  }
  for (std::uint32_t node = core.index(); node < groups_.groups(); node += core.count()) {
    core.write(tokens_ + node * 4ull,
               core.load<std::uint32_t>(gathered(groups_.device(node, place))));
  }
  const std::uint64_t mine = (entries + core.count() - 1) / core.count();
  co_await core.stream(mine * 4);
  co_await core.compute(kScanPasses * core.costs().vector(mine * groups_.members()));
  co_await core.stream(mine * groups_.members() * 4 / top_k_);
}

std::vector<std::uint32_t> HybridEpMaps::members(Core& core, std::uint32_t node,
                                                 std::uint32_t token) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t each = 0; each < groups_.members(); ++each) {
    if (row(core, node, token, each) != kNoRow) found.push_back(each);
  }
  return found;
}

std::vector<std::uint32_t> HybridEpMaps::nodes(Core& core, std::uint32_t token) const {
  std::vector<bool> named(groups_.groups(), false);
  const auto ids = core.array<std::int32_t>(
      gathered(core.rank()) + 4 + std::uint64_t{token} * top_k_ * 4, top_k_);
  for (const std::int32_t id : ids) {
    if (id < 0) continue;
    named[groups_.group_of(placement_.owner(static_cast<std::uint32_t>(id)))] = true;
  }
  std::vector<std::uint32_t> found;
  for (std::uint32_t node = 0; node < groups_.groups(); ++node) {
    if (named[node]) found.push_back(node);
  }
  return found;
}

}  // namespace orrery::moe
