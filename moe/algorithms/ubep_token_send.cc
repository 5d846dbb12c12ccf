// UBEP, token send: each sending core finds its entries and puts them, row by row, to their
// experts.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "moe/algorithms/ubep.h"
#include "moe/share.h"

namespace orrery::moe::ubep {

using devices::Core;
using devices::PutHandle;
using devices::Slots;
using devices::word_equals;
using fabric::Address;

// Never waits for another device and never fences: a row says itself that it is there.
emu::Task Ubep::send_tokens(Core& core, std::uint32_t iteration, std::uint32_t round) {
  core.phase("token send");
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  co_await core.stream(entries * sizeof(std::int32_t));
  std::vector<Send> mine;
  co_await plan(core, ids, round, mine);
  core.phase("token send");
  const bool by_entry = schedule_ == Schedule::kEntryCyclic || schedule_ == Schedule::kRandom;
  PutHandle in_flight[2];
  std::uint32_t turn = 0;
  std::int32_t expert = -1;
  std::optional<std::uint32_t> token;  // whose payload is plain: the host need not make it again
  float scale = 0;
  for (const Send& send : mine) {
    // Its place among the rows for its expert: counted among the entries before it, or by walking
    // a mask of the expert's entries, made once.
    const bool next_expert = std::exchange(expert, ids[send.entry]) != ids[send.entry];
    const std::uint32_t looked_at = by_entry ? send.entry : next_expert ? entries : 0;
    emu::Time find = core.costs().scalar_step;
    if (looked_at > 0) find += kCountPasses * core.costs().vector(looked_at);
    const RowTag tag{core.rank(), send.entry / problem_.top_k(), send.entry % problem_.top_k()};
    const Address record = at_.record(core.index(), turn);
    co_await core.wait_local(in_flight[turn]);
    co_await core.stream(output_row_bytes());
    if (token != tag.token) scale = encode(core, tag.token, at_.plain(core.index()));
    token = tag.token;
    wire_.pack(core, record, at_.plain(core.index()), {scale, tag}, round);
    co_await core.compute(find + encode_time());
    if (sabotage_ == "drop-row" && core.rank() == 0 && send.entry == 0) continue;
    const std::uint32_t owner = problem_.placement.owner(static_cast<std::uint32_t>(expert));
    const std::uint32_t to =
        list(problem_.placement.local_index(static_cast<std::uint32_t>(expert)), core.rank());
    const Address slot = at_.slot(round & 1, to, send.place);
    in_flight[turn] = co_await core.put(owner, slot, record, wire_.slot_bytes());
    if (wire_.flag_beside()) {
      co_await put_flag(core, owner, at_.flag(round & 1, to, send.place), round);
    }
    turn ^= 1;
  }
  co_await core.wait_local(in_flight[0]);
  co_await core.wait_local(in_flight[1]);
  core.discard(at_.record(core.index(), 0), 2 * wire_.slot_bytes());
  core.discard(at_.plain(core.index()), row_stride());
}

// Behind a row that cannot say itself that it is there.
emu::Task Ubep::put_flag(Core& core, std::uint32_t rank, Address flag, std::uint32_t round) {
  if (wire_.kind() == FlagKind::kFence) {
    co_await core.fence();
  } else {
    co_await core.quiet();
  }
  co_await core.store(rank, flag, round);
}

// What this core sends. Schedules that go by positions need a histogram.
emu::Task Ubep::plan(Core& core, std::span<const std::int32_t> ids, std::uint32_t round,
                     std::vector<Send>& mine) {
  const std::uint32_t experts = problem_.placement.experts();
  std::vector<std::uint8_t> hop_class(experts, 0);
  for (std::uint32_t expert = 0; expert < experts; ++expert) {
    const std::uint32_t switches = core.switches(problem_.placement.owner(expert));
    hop_class[expert] = static_cast<std::uint8_t>(std::min(switches, kHopClasses - 1));
  }
  std::vector<std::uint32_t> counts(experts, 0);
  for (const std::int32_t id : ids) {
    if (id >= 0) ++counts[static_cast<std::size_t>(id)];
  }
  if (schedule_ == Schedule::kBalanced || schedule_ == Schedule::kHopAware) {
    core.phase("mapper");
    const auto entries = static_cast<std::uint32_t>(ids.size());
    co_await share_histogram(core, entries, round, counts);
    co_await core.compute(kScanPasses * core.costs().vector(experts) + mapper_time(entries));
  }
  const std::uint64_t seed = problem_.seed + (std::uint64_t{core.rank()} << 32) + round;
  const std::uint32_t first = problem_.placement.begin((core.rank() + 1) % core.ranks());
  mine = sends(schedule_, {ids, counts, hop_class, first, seed}, senders(), core.index());
}

// Every sender counts its share of the experts and tells the other senders; then each finds its own
// ranges in what they counted.
emu::Task Ubep::share_histogram(Core& core, std::uint32_t entries, std::uint32_t round,
                                std::vector<std::uint32_t>& counts) {
  const std::uint32_t experts = problem_.placement.experts();
  const Share mine = share(experts, senders(), core.index());
  for (std::uint32_t e = mine.begin; e < mine.end; ++e) core.write(at_.histogram(e), counts[e]);
  co_await core.compute(mine.size() * kCountPasses * core.costs().vector(entries));
  co_await core.store(core.rank(), at_.histogram_flag(core.index()), round);
  const Slots flags{at_.histogram_flag(0), 4, sizeof(Cell), senders()};
  const devices::Predicate ready = word_equals(round);
  const auto writer = [&core](std::uint32_t sender) {
    return fmt::format("device {} core {} (its share of the histogram)", core.rank(), sender);
  };
  co_await core.wait_until(flags, ready, writer);
  const auto histogram = core.array<std::uint32_t>(at_.histogram(0), experts);
  counts.assign(histogram.begin(), histogram.end());
  co_await core.stream(experts * sizeof(std::uint32_t));
}

// All borders of a core's ranges at once in the lanes of a vector; or a bitonic sort of the
// entries.
emu::Time Ubep::mapper_time(std::uint32_t entries) const {
  const auto& costs = problem_.costs;
  return sort_ ? sort_passes(entries) * costs.vector(entries)
               : search_steps(problem_.placement.experts()) * costs.search_step;
}

}  // namespace orrery::moe::ubep
