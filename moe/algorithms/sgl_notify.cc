#include "moe/algorithms/sgl_notify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::Slots;

namespace {

// Vector passes over all entries per expert, counted in the layout kernel's inner loop: subtract,
// abs, min with 1, sum.
constexpr int kCountPasses = 4;

devices::Predicate flag_equals(std::uint64_t value) {
  return {[](const std::byte* slot, std::uint64_t wanted) {
            std::uint64_t flag;
            std::memcpy(&flag, slot, sizeof(flag));
            return flag == wanted;
          },
          value, "the notify flag of this call"};
}

}  // namespace

SglNotify::SglNotify(const Problem& problem, std::uint32_t round_tokens, Layout& layout)
    : problem_(problem),
      round_tokens_(round_tokens),
      max_rounds_(std::max(1u, (problem.token_bound + round_tokens - 1) / round_tokens)) {
  const std::uint64_t lists = std::uint64_t{problem.devices} * max_local();
  counts_ = layout.flat(std::uint64_t{max_rounds_} * problem.placement.experts() * 4);
  places_ = layout.flat(std::uint64_t{problem.token_bound} * problem.top_k() * 4);
  assembled_ = layout.flat(triples() * sizeof(Triple));
  shared_ = layout.flat(triples() * sizeof(Triple));
  received_ = layout.flat(triples() * sizeof(Triple));
  notified_ = layout.flat(std::uint64_t{problem.devices} * 8);
  rounds_ = layout.flat(4);
  expert_base_ = layout.flat(std::uint64_t{max_local()} * 4);
  source_in_expert_ = layout.flat(lists * 4);
  round_in_source_ = layout.flat(lists * max_rounds_ * 4);
}

std::uint32_t SglNotify::window_row(Core& core, std::uint32_t entry, std::uint32_t expert) const {
  const std::uint32_t round = entry / problem_.top_k() / round_tokens_;
  const auto list = core.load<Triple>(triple(assembled_, problem_.placement.owner(expert), round,
                                             problem_.placement.local_index(expert)));
  return list.offset + core.load<std::uint32_t>(place(entry));
}

SglNotify::List SglNotify::received(Core& core, std::uint32_t round, std::uint32_t local,
                                    std::uint32_t source) const {
  const auto sent = core.load<Triple>(triple(received_, source, round, local));
  return {sent.count, sent.offset,
          std::uint64_t{core.load<std::uint32_t>(expert_base(local))} +
              core.load<std::uint32_t>(source_in_expert(local, source)) +
              core.load<std::uint32_t>(round_in_source(round, local, source))};
}

emu::Task SglNotify::run(Core& core, std::uint64_t call, fabric::Address ids, std::uint32_t tokens,
                         fabric::Address expert_rows) const {
  co_await count_sends(core, ids, tokens);
  co_await assemble(core, tokens);
  co_await exchange(core, call);
  co_await build_vectors(core, expert_rows);
}

// Experts are split over the cores: how many rows each gets in each round, and the place of every
// entry among them.
emu::Task SglNotify::count_sends(Core& core, fabric::Address ids, std::uint32_t tokens) const {
  core.phase("layout");
  const std::uint32_t entries = tokens * problem_.top_k();
  const auto experts = core.array<std::int32_t>(ids, entries);
  const Share mine = share(problem_.placement.experts(), core.count(), core.index());
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(mine.size() * kCountPasses * core.costs().vector(entries));
  std::vector<std::uint32_t> rows(std::size_t{max_rounds_} * mine.size(), 0);
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    const auto expert = static_cast<std::uint32_t>(experts[entry]);
    if (experts[entry] < 0 || expert < mine.begin || expert >= mine.end) continue;
    const std::size_t round = entry / problem_.top_k() / round_tokens_;
    core.write(place(entry), rows[round * mine.size() + expert - mine.begin]++);
  }
  for (std::uint32_t round = 0; round < max_rounds_; ++round) {
    for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
      core.write(count(round, expert),
                 rows[std::size_t{round} * mine.size() + expert - mine.begin]);
    }
  }
  co_await core.barrier();
}

// Core 0 alone. Rows lie in the window by expert; the window is used anew in every round.
emu::Task SglNotify::assemble(Core& core, std::uint32_t tokens) const {
  core.phase("notify: assemble");
  for (std::uint32_t round = 0; core.index() == 0 && round < max_rounds_; ++round) {
    const std::uint32_t first = std::min(tokens, round * round_tokens_);
    Triple each;
    each.tokens = std::min(tokens - first, round_tokens_);
    for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
      for (std::uint32_t local = 0; local < max_local(); ++local) {
        each.count = 0;
        if (local < problem_.placement.count(peer)) {
          each.count =
              core.load<std::uint32_t>(count(round, problem_.placement.begin(peer) + local));
        }
        core.write(triple(assembled_, peer, round, local), each);
        each.offset += each.count;
      }
    }
    co_await core.compute(static_cast<emu::Time>(triples() / max_rounds_) *
                          core.costs().scalar_step);
  }
  co_await core.barrier();
}

// Peers are split over the cores, which copy what their peers must know into this device's own
// window, flag that, wait for their peers' flags and read from theirs.
emu::Task SglNotify::exchange(Core& core, std::uint64_t call) const {
  core.phase("notify: exchange counts");
  const Share peers = share(problem_.devices, core.count(), core.index());
  const std::uint64_t flag = call * 2 + 1;  // the source's magic*2+1
  for (std::uint32_t peer = peers.begin; peer < peers.end; ++peer) {
    co_await core.copy(triple(shared_, peer, 0, 0), triple(assembled_, peer, 0, 0), peer_bytes());
    co_await core.store(peer, notified_ + std::uint64_t{core.rank()} * 8, flag);
  }
  const auto writer = [peers, &core](std::uint32_t slot) {
    return fmt::format("device {} core {} (notify flag)", peers.begin + slot,
                       share_of(core.ranks(), core.count(), core.rank()));
  };
  const Slots slots{notified_ + std::uint64_t{peers.begin} * 8, 8, 8, peers.size(), 0};
  const devices::Predicate ready = flag_equals(flag);
  co_await core.wait_until(slots, ready, writer);
  for (std::uint32_t source = peers.begin; source < peers.end; ++source) {
    co_await core.get(source, triple(shared_, core.rank(), 0, 0), triple(received_, source, 0, 0),
                      peer_bytes());
  }
  co_await core.barrier();
}

// Different cores sum up the counts in different ways.
emu::Task SglNotify::build_vectors(Core& core, fabric::Address expert_rows) const {
  core.phase("notify: build vectors");
  constexpr std::uint32_t kVectors = 5;
  for (std::uint32_t vector = core.index(); vector < kVectors; vector += core.count()) {
    co_await core.stream(triples() * sizeof(Triple));
    co_await core.compute(static_cast<emu::Time>(triples()) * core.costs().scalar_step);
    build_vector(core, vector, expert_rows);
  }
  co_await core.barrier();
}

void SglNotify::build_vector(Core& core, std::uint32_t vector, fabric::Address expert_rows) const {
  std::vector<std::uint32_t> tokens(problem_.devices, 0);
  std::uint32_t base = 0;
  for (std::uint32_t local = 0; local < max_local(); ++local) {
    std::uint32_t in_expert = 0;
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      if (vector == 0) core.write(source_in_expert(local, source), in_expert);
      std::uint32_t in_source = 0;
      for (std::uint32_t round = 0; round < max_rounds_; ++round) {
        const auto each = core.load<Triple>(triple(received_, source, round, local));
        if (vector == 1) core.write(round_in_source(round, local, source), in_source);
        in_source += each.count;
        if (local == 0) tokens[source] += each.tokens;
      }
      in_expert += in_source;
    }
    if (vector == 2) core.write(expert_rows + std::uint64_t{local} * 4, in_expert);
    if (vector == 3) core.write(expert_base(local), base);
    base += in_expert;
  }
  if (vector != 4) return;
  const std::uint32_t most = *std::max_element(tokens.begin(), tokens.end());
  core.write(rounds_, std::max(1u, (most + round_tokens_ - 1) / round_tokens_));
}

}  // namespace orrery::moe
