// UBEP, token count and cumsum: counting cores tell all devices how many rows to expect, and make
// of what they hear themselves the place of every row.
#include <fmt/format.h>

#include "moe/algorithms/ubep.h"
#include "moe/share.h"

namespace orrery::moe::ubep {

using devices::Core;
using devices::Piece;
using devices::PutHandle;
using devices::Slots;
using devices::word_equals;

// Destinations are dealt to the counting cores, beginning beside this device; each hears its
// counts at once, whatever its tokens do.
emu::Task Ubep::count_tokens(Core& core, std::uint32_t iteration, std::uint32_t round) {
  core.phase("token count");
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  co_await core.stream(entries * sizeof(std::int32_t));
  std::vector<std::uint32_t> rows(problem_.placement.experts(), 0);
  for (const std::int32_t id : ids) {
    if (id >= 0) ++rows[static_cast<std::size_t>(id)];
  }
  std::vector<Piece> pieces;
  PutHandle last;
  for (std::uint32_t i = counter(core); i < core.ranks(); i += count_cores_) {
    const std::uint32_t to = (core.rank() + 1 + i) % core.ranks();
    const std::uint32_t first = problem_.placement.begin(to);
    co_await core.compute(local_experts(to) * kCountPasses * core.costs().vector(entries));
    if (sabotage_ == "drop-status" && core.rank() == 0 && to == core.ranks() - 1) continue;
    pieces.clear();
    for (std::uint32_t local = 0; local < std::max(local_experts(to), 1u); ++local) {
      const std::uint32_t count = local < local_experts(to) ? rows[first + local] : 0;
      core.write(at_.outgoing(to, local), Cell{round, count, {}});
      pieces.push_back(
          {at_.status(round & 1, list(local, core.rank())), at_.outgoing(to, local), kCellBytes});
    }
    last = co_await core.put(to, std::span<const Piece>(pieces));
  }
  co_await core.wait_local(last);
}

// Incoming statuses are split over the counting cores. Each adds up its own, tells the others,
// and writes all cores a copy of the inclusive prefix of its share, then their soft flags.
emu::Task Ubep::sum_counts(Core& core, std::uint32_t round) {
  core.phase("cumsum");
  const std::uint32_t self = counter(core);
  const Share mine = share(lists_of(core.rank()), count_cores_, self);
  const devices::Predicate ready = word_equals(round);
  const auto source = [this, mine](std::uint32_t slot) {
    const std::uint32_t device = (mine.begin + slot) % problem_.devices;
    return fmt::format("device {} (status of list {})", device, mine.begin + slot);
  };
  const Slots statuses{at_.status(round & 1, mine.begin), 4, sizeof(Cell), mine.size()};
  co_await core.wait_until(statuses, ready, source);
  co_await core.stream(mine.size() * sizeof(Cell));
  co_await core.compute(kScanPasses * core.costs().vector(mine.size()));
  std::vector<std::uint32_t> inclusive;
  std::uint32_t sum = 0;
  for (std::uint32_t each = mine.begin; each < mine.end; ++each) {
    sum += core.load<std::uint32_t>(value_of(at_.status(round & 1, each)));
    inclusive.push_back(sum);
  }

  std::vector<Piece> pieces;
  core.write(at_.staged(core.index(), 0), Cell{round, sum, {}});
  for (std::uint32_t other = 0; other < count_cores_; ++other) {
    pieces.push_back({at_.sum(other, self), at_.staged(core.index(), 0), kCellBytes});
  }
  co_await core.put(core.rank(), std::span<const Piece>(pieces));
  const auto counter_core = [this, &core](std::uint32_t other) {
    return fmt::format("device {} core {} (sum of its counts)", core.rank(), core_of(core, other));
  };
  const Slots sums{at_.sum(self, 0), 4, sizeof(Cell), count_cores_};
  co_await core.wait_until(sums, ready, counter_core);
  std::uint32_t before = 0;
  for (std::uint32_t other = 0; other < self; ++other) {
    before += core.load<std::uint32_t>(value_of(at_.sum(self, other)));
  }
  co_await core.compute(core.costs().vector(count_cores_) + core.costs().vector(mine.size()));
  for (std::uint32_t each = 0; each < mine.size(); ++each) {
    core.write(at_.inclusive(mine.begin + each), before + inclusive[each]);
  }

  pieces.clear();
  for (std::uint32_t each = 0; each < core.count() && mine.size() > 0; ++each) {
    pieces.push_back({at_.copy(each, mine.begin), at_.inclusive(mine.begin), mine.size() * 4});
  }
  co_await core.copy(std::span<const Piece>(pieces));
  pieces.clear();
  core.write(at_.staged(core.index(), 1), Cell{round, 0, {}});
  for (std::uint32_t each = 0; each < core.count(); ++each) {
    pieces.push_back({at_.soft_flag(each, self), at_.staged(core.index(), 1), kCellBytes});
  }
  const PutHandle last = co_await core.put(core.rank(), std::span<const Piece>(pieces));
  co_await core.wait_local(last);
}

}  // namespace orrery::moe::ubep
