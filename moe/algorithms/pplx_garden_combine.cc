#include <utility>

#include "moe/algorithms/pplx_garden.h"

namespace orrery::moe {

using devices::Core;
using devices::Piece;

emu::Task PplxGarden::combine(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core);
  const SendPlan plan = plan_of(core, iteration);
  if (is_worker(core)) {
    co_await wait_peers(core, call);
    discard_overflow(core, plan);
  }
  co_await core.barrier();
  if (copies(core)) co_await copy_outputs(core);
  Handles handles;
  if (is_worker(core)) co_await send_outputs(core, handles);
  co_await core.next_kernel();
  if (is_worker(core)) co_await finish_outputs(core, call, handles);
  if (copies(core)) {
    core.phase("wait near rows");
    for (const std::uint32_t peer : near_peers_[core.rank()]) {
      co_await wait_near(core, peer, plan.rows(peer));
    }
    co_await wait_near(core, core.rank(), plan.rows(core.rank()));
    core.phase("wait far rows");
    co_await wait_worker(core, complete(), call);
    co_await reduce(core, plan, iteration);
  }
  co_await end_call(core, call);
}

// Rows that peers in this node fetched in dispatch: they are through with it.
void PplxGarden::discard_overflow(Core& core, const SendPlan& plan) {
  for (const std::uint32_t peer : near_peers_[core.rank()]) {
    for (std::uint32_t n = private_rows(); n < plan.rows(peer); ++n) {
      core.discard(send_row(plan.first(peer) + n), row_stride());
    }
  }
}

// The position of a source's first row for this device.
std::uint32_t PplxGarden::first_at(Core& core, std::uint32_t source) {
  const std::uint32_t before = problem_.placement.begin(core.rank());
  std::uint32_t rows = 0;
  for (const std::uint32_t count : core.array<std::uint32_t>(counts(source), before)) rows += count;
  return rows;
}

std::vector<ComingRow> PplxGarden::rows_from(Core& core, const std::vector<std::uint32_t>& sources,
                                             std::vector<std::uint32_t>& taken) {
  const std::uint32_t stride = max_local_experts();
  const auto lists =
      core.array<std::uint32_t>(list_rows(0), std::uint64_t{problem_.devices} * stride);
  return coming_rows(sources, lists, stride, taken);
}

// Rows are dealt to the cores: those for other nodes go to where the worker may send them from,
// the others straight to their places.
emu::Task PplxGarden::copy_outputs(Core& core) {
  core.phase("copy to send");
  const std::uint32_t me = core.rank();
  std::vector<std::uint32_t> taken(local_experts(me), 0);
  const std::vector<ComingRow> far = rows_from(core, far_[me], taken);
  std::vector<ComingRow> close = rows_from(core, near_peers_[me], taken);
  for (const ComingRow& each : rows_from(core, {me}, taken)) close.push_back(each);
  for (std::size_t i = 0; i < far.size(); ++i) {
    if (!is_mine(core, i)) continue;
    co_await core.stream(output_row_bytes());
    co_await core.stream(output_row_bytes());
  }
  co_await core.atomic_add(me, sent(), 1);
  core.phase("put in node");
  for (std::size_t i = 0; i < close.size(); ++i) {
    if (!is_mine(core, far.size() + i)) continue;
    const ComingRow& each = close[i];
    co_await core.stream(output_row_bytes());
    const Piece piece{combine_row(first_at(core, each.source) + each.index),
                      expert_output(first_row(each.local) + each.row), output_row_bytes()};
    co_await core.put_signal_add(each.source, piece, near(me), 1, true);
  }
}

// Every peer of another node gets its rows as one write.
emu::Task PplxGarden::send_outputs(Core& core, Handles& handles) {
  const std::uint32_t me = core.rank();
  co_await wait_sent(core);
  core.phase("send rows");
  std::vector<std::uint32_t> taken(local_experts(me), 0);
  const std::vector<ComingRow> rows = rows_from(core, far_[me], taken);
  std::size_t next = 0;
  for (const std::uint32_t peer : far_[me]) {
    const std::uint32_t first = first_at(core, peer);
    std::vector<Piece> pieces;
    for (; next < rows.size() && rows[next].source == peer; ++next) {
      const ComingRow& each = rows[next];
      pieces.push_back({combine_row(first + each.index),
                        expert_output(first_row(each.local) + each.row), output_row_bytes()});
    }
    co_await write_slab(core, peer, std::move(pieces), handles);
  }
}

emu::Task PplxGarden::finish_outputs(Core& core, std::uint32_t call, const Handles& handles) {
  const std::uint32_t me = core.rank();
  core.phase("wait rows");
  co_await wait_slabs(core, static_cast<std::uint32_t>(far_[me].size()));
  co_await core.store(me, complete(), call);
  for (const auto& handle : handles) co_await core.wait_local(handle);
  std::vector<std::uint32_t> taken(local_experts(me), 0);
  for (const ComingRow& each : rows_from(core, far_[me], taken)) {
    core.discard(expert_output(first_row(each.local) + each.row), row_stride());
  }
}

// Tokens are dealt to the cores: a token's rows are added in ascending k.
emu::Task PplxGarden::reduce(Core& core, const SendPlan& plan, std::uint32_t iteration) {
  core.phase("reduce");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = copier(core); token < count; token += copiers(core)) {
    const std::uint64_t first = std::uint64_t{token} * top_k;
    const auto ids = ids_of(core, token);
    const auto weights = weights_of(core, token);
    std::vector<WeightedRow> rows;
    for (std::uint32_t k = 0; k < top_k; ++k) {
      if (ids[k] >= 0) rows.push_back({combine_row(plan.position(first + k)), weights[k]});
    }
    co_await add_rows(core, token, std::move(rows));
  }
}

}  // namespace orrery::moe
