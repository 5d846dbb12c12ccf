// UBEP, combine: outputs go back to where their rows came from, and are added up there.
#include <fmt/format.h>

#include <numeric>

#include "moe/algorithms/ubep.h"
#include "moe/share.h"

namespace orrery::moe::ubep {

using devices::Core;
using devices::Place;
using devices::PutHandle;
using fabric::Address;

// Vector passes of the weighted sum, counted in the kernels' inner loop: widen, multiply, add.
constexpr int kAccumulatePasses = 3;

// Every row goes back to its origin. From a start rotated by rank, in steps of about half of
// them, so that rows that follow each other go to different origins.
emu::Task Ubep::send_outputs(Core& core, std::uint32_t round) {
  core.phase("send outputs");
  std::uint32_t rows = 0;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    rows += core.load<std::uint32_t>(expert_rows(local));
  }
  const Share mine = share(rows, core.count(), core.index());
  std::uint32_t step = mine.size() / 2 + 1;
  while (std::gcd(step, mine.size()) > 1) ++step;
  std::uint64_t next = std::uint64_t{core.rank()} * mine.size() / core.ranks();
  PutHandle in_flight[2];
  for (std::uint32_t i = 0; i < mine.size(); ++i, next += step) {
    const std::uint64_t row = mine.begin + next % mine.size();
    const auto origin = core.load<RowTag>(tag(row));
    const std::uint32_t turn = i % 2;
    const Address record = at_.combine_record(core.index(), turn);
    co_await core.wait_local(in_flight[turn]);
    co_await core.stream(output_row_bytes());
    back_.pack(core, record, expert_output(row), {0, origin}, round);
    core.discard(expert_output(row), row_stride());
    co_await core.compute(back_.pack_time(core.costs()));
    const Address slot = at_.combine_slot(round & 1, origin.token, origin.k);
    in_flight[turn] = co_await core.put(origin.source, slot, record, back_.slot_bytes());
    if (back_.flag_beside()) {
      co_await put_flag(core, origin.source, at_.combine_flag(round & 1, origin.token, origin.k),
                        round);
    }
  }
  co_await core.wait_local(in_flight[0]);
  co_await core.wait_local(in_flight[1]);
  core.discard(at_.combine_record(core.index(), 0), 2 * back_.slot_bytes());
}

// Tokens are split over the cores: wait for all rows of a token, then add them in ascending k.
emu::Task Ubep::reduce(Core& core, std::uint32_t iteration, std::uint32_t round) {
  core.phase("reduce");
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  const std::uint32_t top_k = problem_.top_k();
  std::vector<std::uint32_t> ks;
  std::vector<Place> places;
  std::vector<WeightedRow> rows;
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    const auto ids = ids_of(core, token);
    const auto weights = weights_of(core, token);
    ks.clear();
    places.clear();
    for (std::uint32_t k = 0; k < top_k; ++k) {
      if (ids[k] < 0) continue;
      ks.push_back(k);
      places.push_back(back_.place(at_.combine_slot(round & 1, token, k),
                                   at_.combine_flag(round & 1, token, k)));
    }
    const auto arrived = [this, &core, &places, round](std::uint32_t i) {
      return back_.arrived(core, places[i], round);
    };
    const auto owner = [this, ids, &ks](std::uint32_t i) {
      const auto expert = static_cast<std::uint32_t>(ids[ks[i]]);
      return fmt::format("device {} (row of expert {})", problem_.placement.owner(expert), expert);
    };
    co_await core.wait_all(std::span<const Place>(places), arrived, back_.read_time(core.costs()),
                           back_.wants(), owner);
    rows.clear();
    for (const std::uint32_t k : ks) {
      const Address slot = at_.combine_slot(round & 1, token, k);
      co_await core.stream(output_row_bytes());
      core.accept(slot, back_.slot_bytes());
      co_await core.compute(kAccumulatePasses * core.costs().vector(problem_.hidden()) +
                            back_.restore_time(core.costs()));
      back_.unpack(core, at_.unpacked(core.index(), k), slot, round);
      rows.push_back({at_.unpacked(core.index(), k), weights[k]});
      core.discard(slot, back_.slot_bytes());
      if (back_.flag_beside()) {
        core.write(at_.combine_flag(round & 1, token, k), std::uint32_t{0});
      }
    }
    weighted_sum(core, token, rows);
    for (const WeightedRow& each : rows) core.discard(each.row, row_stride());
    co_await core.compute(core.costs().vector(problem_.hidden()));
    co_await core.stream(output_row_bytes() + rows.size() * back_.reset_bytes());
  }
}

}  // namespace orrery::moe::ubep
