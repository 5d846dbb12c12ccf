#include "moe/algorithms/trtllm_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace orrery::moe {

using devices::Core;
using devices::Predicate;
using devices::Slots;

namespace {

// Vector passes over the ids: whose they are, which tokens have any of a device, their places.
constexpr int kCountPasses = 3;
// Calls are counted by every core for itself.
constexpr std::uint32_t kMostCores = 1024;

std::uint64_t word_of(std::uint32_t call, std::uint32_t count) {
  return std::uint64_t{call} << 32 | count;
}

Predicate count_of_call(std::uint32_t call) {
  return {[](const std::byte* slot, std::uint64_t wanted) {
            std::uint64_t word;
            std::memcpy(&word, slot, sizeof(word));
            return word >> 32 == wanted;
          },
          call, "a count of this call"};
}

}  // namespace

TrtllmCounts::TrtllmCounts(Layout& layout, const ExpertPlacement& placement, std::uint32_t tokens,
                           std::uint32_t top_k)
    : placement_(placement),
      tokens_(tokens),
      top_k_(top_k),
      lists_(layout.flat(std::uint64_t{placement.devices()} * tokens * 4)),
      sent_(layout.flat(placement.devices() * 4ull)),
      coming_(layout.flat(placement.devices() * 4ull)),
      fifos_(layout.flat(std::uint64_t{placement.devices()} * kDepth * 8)),
      taken_(layout.flat(placement.devices() * 8ull)),
      calls_(layout.flat(kMostCores * 4ull)) {}

void TrtllmCounts::set_up(fabric::Memory& memory) const {
  for (std::uint32_t core = 0; core < kMostCores; ++core) {
    memory.store(call_of(core), std::uint32_t{0});
  }
}

// Peers are dealt to the cores.
emu::Task TrtllmCounts::run(Core& core, fabric::Address ids, std::uint32_t tokens) const {
  core.phase("count");
  const auto call = core.load<std::uint32_t>(call_of(core.index())) + 1;
  core.write(call_of(core.index()), call);
  if (core.index() >= placement_.devices()) co_return;
  const std::uint64_t entries = std::uint64_t{tokens} * top_k_;
  const auto all = core.array<std::int32_t>(ids, entries);
  co_await core.stream(entries * 4);
  for (std::uint32_t peer = core.index(); peer < placement_.devices(); peer += core.count()) {
    std::uint32_t count = 0;
    for (std::uint32_t token = 0; token < tokens; ++token) {
      const auto mine = all.subspan(std::size_t{token} * top_k_, top_k_);
      const bool goes = std::any_of(mine.begin(), mine.end(), [&](std::int32_t id) {
        return id >= 0 && placement_.owner(static_cast<std::uint32_t>(id)) == peer;
      });
      if (goes) core.write(list(peer, count++), token);
    }
    core.write(sent_ + peer * 4ull, count);
    co_await core.compute(kCountPasses * core.costs().vector(entries));
    co_await core.stream(count * 4ull);
    co_await tell(core, call, peer, count);
  }
  core.phase("wait counts");
  for (std::uint32_t peer = core.index(); peer < placement_.devices(); peer += core.count()) {
    co_await hear(core, call, peer);
  }
}

emu::Task TrtllmCounts::tell(Core& core, std::uint32_t call, std::uint32_t peer,
                             std::uint32_t count) const {
  if (call > kDepth) {
    const auto writer = [peer](std::uint32_t) {
      return fmt::format("device {} (takes a count)", peer);
    };
    const Slots word{taken(peer)};
    const Predicate room = devices::word_at_least(call - kDepth);
    co_await core.wait_until(word, room, writer);
  }
  const std::uint64_t value = word_of(call, count);
  co_await core.store(peer, entry(core.rank(), call), value);
}

emu::Task TrtllmCounts::hear(Core& core, std::uint32_t call, std::uint32_t peer) const {
  const auto writer = [peer, &core](std::uint32_t) {
    return fmt::format("device {} core {} (count)", peer, core.rank() % core.count());
  };
  const Slots word{entry(peer, call), 8, 8, 1, 0};
  const Predicate there = count_of_call(call);
  co_await core.wait_until(word, there, writer);
  const auto count = static_cast<std::uint32_t>(core.load<std::uint64_t>(entry(peer, call)));
  core.write(coming_ + peer * 4ull, count);
  const std::uint64_t one = 1;
  co_await core.atomic_add(peer, taken(core.rank()), one);
}

}  // namespace orrery::moe
