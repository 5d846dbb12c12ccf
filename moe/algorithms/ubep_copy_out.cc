// UBEP, copy out: rows go from the windows to where their experts want them, as they come.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "moe/algorithms/ubep.h"
#include "moe/share.h"

namespace orrery::moe::ubep {

using devices::Core;
using devices::Piece;
using devices::Place;
using devices::Slots;
using devices::word_equals;
using fabric::Address;

// Lists that a core polls at a time when it copies out, and what it copies at a time: half of the
// 192 KiB of a core's own memory, while the other half is being written out.
constexpr std::size_t kListsAtOnce = 8;
constexpr std::uint32_t kBatchBytes = 96 * 1024;

std::uint32_t Ubep::batch_rows(const Cursor& at) const {
  return std::min(at.rows - at.n, std::max(kBatchBytes / wire_.slot_bytes(), 1u));
}

// Lists are split over all cores. A core goes round those that are not finished, a few at a time;
// of each it looks at as many rows as it can hold at once, and copies them when all are there.
emu::Task Ubep::copy_out(Core& core, std::uint32_t round) {
  core.phase("wait counts");
  const std::uint32_t half = round & 1;
  const auto counter_core = [this, &core](std::uint32_t counter) {
    return fmt::format("device {} core {} (soft flag)", core.rank(), core_of(core, counter));
  };
  const Slots flags{at_.soft_flag(core.index(), 0), 4, sizeof(Cell), count_cores_};
  const devices::Predicate ready = word_equals(round);
  co_await core.wait_until(flags, ready, counter_core);
  core.phase("copy out");
  std::vector<Cursor> active;
  std::vector<Cursor> later = my_lists(core);
  co_await core.stream((later.size() + 1) * sizeof(std::uint32_t));
  std::reverse(later.begin(), later.end());
  std::array<Place, kListsAtOnce> places;
  const auto arrived = [this, &core, &active, half, round](std::uint32_t i) {
    return batch_arrived(core, active[i], half, round);
  };
  const auto source = [this, &active](std::uint32_t i) {
    const Cursor& at = active[i];
    return fmt::format("device {} (row {} of {} of list {}, or one of {} after it)",
                       at.list % problem_.devices, at.n, at.rows, at.list, at.batch - 1);
  };
  std::uint32_t next = 0;  // of the active ones
  while (!active.empty() || !later.empty()) {
    for (; active.size() < kListsAtOnce && !later.empty(); later.pop_back()) {
      active.push_back(later.back());
    }
    if (next == active.size()) next = 0;
    std::uint32_t looked_at = 0;  // rows in a round, which is even over its lists
    for (std::size_t i = 0; i < active.size(); ++i) {
      Cursor& at = active[i];
      at.batch = batch_rows(at);
      looked_at += at.batch;
      places[i] = wire_.place(at_.slot(half, at.list, at.n), at_.flag(half, at.list, at.n));
      const std::uint32_t apart = wire_.flag_beside() ? sizeof(Cell) : wire_.slot_bytes();
      places[i].bytes += (at.batch - 1) * apart;
    }
    const emu::Time read =
        looked_at * wire_.read_time(core.costs()) / static_cast<emu::Time>(active.size());
    const std::uint64_t seen =
        co_await core.wait_any(std::span<const Place>(places.data(), active.size()), arrived, read,
                               wire_.wants(), source, next);
    next = static_cast<std::uint32_t>(std::countr_zero(seen));
    Cursor& at = active[next];
    co_await copy_batch(core, at, round);
    if (at.n < at.rows) {
      ++next;
    } else {
      active.erase(active.begin() + next);
    }
  }
}

bool Ubep::batch_arrived(Core& core, const Cursor& at, std::uint32_t half,
                         std::uint32_t round) const {
  for (std::uint32_t n = at.n; n < at.n + at.batch; ++n) {
    const Place row = wire_.place(at_.slot(half, at.list, n), at_.flag(half, at.list, n));
    if (!wire_.arrived(core, row, round)) return false;
  }
  return true;
}

// Rows, then their scales, then their triples: a copy each. The last batch of a list clears the
// flags of it all.
emu::Task Ubep::copy_batch(Core& core, Cursor& at, std::uint32_t round) {
  const std::uint32_t half = round & 1;
  std::vector<Piece> pieces;
  for (std::uint32_t i = 0; i < at.batch; ++i) {
    const Address slot = at_.slot(half, at.list, at.n + i);
    core.accept(slot, wire_.slot_bytes());
    wire_.add_pieces(slot, expanded(at.row + i), pieces);
  }
  co_await core.copy(std::span<const Piece>(pieces));
  co_await core.compute(core.costs().scalar_step + at.batch * wire_.restore_time(core.costs()));
  co_await core.stream(at.batch * sizeof(float));
  co_await core.stream(at.batch * sizeof(RowTag));
  for (; at.batch > 0; --at.batch, ++at.n, ++at.row) {
    const Address slot = at_.slot(half, at.list, at.n);
    const Trailer trailer = wire_.restore(core, expanded(at.row), slot, round);
    core.write(scale(at.row), trailer.scale);
    core.write(tag(at.row), trailer.tag);
    core.discard(slot, wire_.slot_bytes());  // its flags, too
    if (wire_.flag_beside()) core.write(at_.flag(half, at.list, at.n), std::uint32_t{0});
  }
  if (at.n == at.rows) co_await core.stream(std::uint64_t{at.rows} * wire_.reset_bytes());
}

// This core's lists that are not empty. Whoever has an expert's last list writes its rows.
std::vector<Ubep::Cursor> Ubep::my_lists(Core& core) {
  const Share mine = share(lists_of(core.rank()), core.count(), core.index());
  const auto inclusive =
      core.array<std::uint32_t>(at_.copy(core.index(), 0), lists_of(core.rank()));
  const auto before = [&](std::uint32_t list) { return list == 0 ? 0 : inclusive[list - 1]; };
  std::vector<Cursor> lists;
  for (std::uint32_t each = mine.begin; each < mine.end; ++each) {
    const std::uint32_t rows = inclusive[each] - before(each);
    if (rows > 0) lists.push_back({each, rows, before(each)});
    const std::uint32_t local = each / problem_.devices;
    if (each % problem_.devices == problem_.devices - 1 && local < local_experts(core.rank())) {
      core.write(expert_rows(local), inclusive[each] - before(list(local, 0)));
    }
  }
  return lists;
}

}  // namespace orrery::moe::ubep
