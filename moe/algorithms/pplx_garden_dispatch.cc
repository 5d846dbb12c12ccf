#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "moe/algorithms/pplx_garden.h"

namespace orrery::moe {

using devices::Core;
using devices::Piece;
using devices::Predicate;
using devices::Slots;

namespace {
// Vector passes of the first core: over the entries to count them (an atomic each), over the
// experts to add up where each begins.
constexpr int kCountPasses = 2;
constexpr int kScanPasses = 4;
}  // namespace

emu::Task PplxGarden::dispatch(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core);
  const SendPlan plan = plan_of(core, iteration);
  if (is_worker(core)) {
    co_await count_rows(core, plan, iteration);
    co_await wait_peers(core, call);
  }
  co_await core.barrier();
  Handles handles;
  if (is_worker(core)) co_await send_counts(core, handles);
  if (copies(core)) co_await copy_to_send(core, plan, iteration);
  if (is_worker(core)) {
    co_await wait_sent(core);
    co_await send_private(core, plan, handles);
  }
  co_await core.next_kernel();
  if (is_worker(core)) co_await exchange(core, plan, call, handles);
  if (copies(core)) co_await receive(core, plan, call);
  co_await end_call(core, call);
}

emu::Task PplxGarden::count_rows(Core& core, const SendPlan& plan, std::uint32_t iteration) {
  core.phase("count rows");
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(kCountPasses * core.costs().vector(entries) +
                        kScanPasses * core.costs().vector(problem_.placement.experts()));
  core.write_bytes(counts(core.rank()), std::as_bytes(plan.counts()));
  co_await core.stream((entries + problem_.placement.experts()) * sizeof(std::uint32_t));
}

// All counts of this device to every other one.
emu::Task PplxGarden::send_counts(Core& core, Handles& handles) {
  core.phase("send counts");
  const fabric::Address row = counts(core.rank());
  const Piece piece{row, row, problem_.placement.experts() * 4};
  for (std::uint32_t shift = 1; shift < problem_.devices; ++shift) {
    const std::uint32_t peer = (core.rank() + shift) % problem_.devices;
    const devices::PutHandle handle = co_await core.put_signal_add(peer, piece, routed(), 1);
    handles.push_back(handle);
  }
}

// Whether a row goes from its core to the private slots of a peer in this node.
bool PplxGarden::is_direct(std::uint32_t rank, const SendPlan& plan, std::uint32_t owner,
                           std::uint32_t position) const {
  return owner != rank && problem_.nodes[owner] == problem_.nodes[rank] &&
         position - plan.first(owner) < private_rows();
}

// Tokens are dealt to the cores: first what the worker sends or the device keeps, to the send
// buffer; then what goes to the node's other devices.
emu::Task PplxGarden::copy_to_send(Core& core, const SendPlan& plan, std::uint32_t iteration) {
  core.phase("copy to send");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t count = tokens(core.rank(), iteration);
  const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * top_k);
  std::vector<float> scales(count, 0);
  for (const bool direct : {false, true}) {
    for (std::uint32_t token = copier(core); token < count; token += copiers(core)) {
      if (!direct) {
        co_await core.stream(payload_bytes());
        scales[token] = encode(core, token, staged(token));
      }
      for (std::uint32_t k = 0; k < top_k; ++k) {
        const std::size_t entry = std::size_t{token} * top_k + k;
        if (ids[entry] < 0) continue;
        const auto owner = problem_.placement.owner(static_cast<std::uint32_t>(ids[entry]));
        const std::uint32_t position = plan.position(entry);
        if (is_direct(core.rank(), plan, owner, position) != direct) continue;
        const fabric::Address row = send_row(position);
        write_message(core, token, k, row, staged(token), scales[token]);
        if (!direct) {
          co_await core.stream(message_bytes());
          continue;
        }
        const std::uint32_t index = position - plan.first(owner);
        const Piece piece{private_slot(core.rank(), index), row, message_bytes()};
        co_await core.put_signal_add(owner, piece, near(core.rank()), 1, true);
      }
      if (direct) core.discard(staged(token), row_stride());
    }
    if (!direct) {
      co_await core.atomic_add(core.rank(), sent(), 1);
      core.phase("put in node");
    }
  }
}

// Behind the private rows, while the cores begin to take what has come.
emu::Task PplxGarden::exchange(Core& core, const SendPlan& plan, std::uint32_t call,
                               Handles& handles) {
  co_await work_out_routes(core);
  co_await send_overflow(core, plan, handles);
  co_await core.store(core.rank(), counted(), call);
  core.phase("wait rows");
  std::uint32_t expected = 0;
  for (const std::uint32_t source : far_[core.rank()]) {
    expected += rows_between(core, source, core.rank()) > private_rows() ? 2 : 1;
  }
  co_await wait_slabs(core, expected);
  co_await core.store(core.rank(), complete(), call);
  for (const auto& handle : handles) co_await core.wait_local(handle);
  for (const std::uint32_t peer : far_[core.rank()]) {
    for (std::uint32_t n = 0; n < plan.rows(peer); ++n) {
      core.discard(send_row(plan.first(peer) + n), row_stride());
    }
  }
}

// To every peer of another node as many rows as have a private slot there, or word that there are
// none. A peer in this node fetches what has none; it hears that it may.
emu::Task PplxGarden::send_private(Core& core, const SendPlan& plan, Handles& handles) {
  core.phase("send private rows");
  co_await core.compute(worker_step_ * problem_.placement.experts());
  for (const std::uint32_t peer : far_[core.rank()]) {
    const std::uint32_t count = std::min(plan.rows(peer), private_rows());
    std::vector<Piece> pieces;
    for (std::uint32_t n = 0; n < count; ++n) {
      pieces.push_back(
          {private_slot(core.rank(), n), send_row(plan.first(peer) + n), message_bytes()});
    }
    co_await write_slab(core, peer, std::move(pieces), handles);
  }
  for (const std::uint32_t peer : near_peers_[core.rank()]) {
    if (plan.rows(peer) <= private_rows()) continue;
    co_await core.atomic_add(peer, near(core.rank()), 1);
  }
}

emu::Task PplxGarden::work_out_routes(Core& core) {
  core.phase("wait counts");
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {} and every further one: its counts", core.rank() == 0 ? 1 : 0);
  };
  const Slots word{routed()};
  const Predicate all = devices::word_equals(problem_.devices - 1);
  co_await core.wait_until(word, all, writer);
  core.write(routed(), std::uint64_t{0});
  core.phase("work out routes");
  const std::uint32_t experts = problem_.placement.experts();
  std::uint64_t rows = 0;
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    const auto counts = core.array<std::uint32_t>(this->counts(source), experts);
    std::vector<std::uint32_t> mine(max_local_experts(), 0);
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      mine[local] = counts[problem_.placement.begin(core.rank()) + local];
      rows += mine[local];
    }
    core.write_bytes(list_rows(source), std::as_bytes(std::span<const std::uint32_t>(mine)));
  }
  co_await core.compute(worker_step_ *
                        static_cast<emu::Time>(std::uint64_t{problem_.devices} * experts + rows));
}

// Rows of `source` for `owner`, once counts are known.
std::uint32_t PplxGarden::rows_between(Core& core, std::uint32_t source, std::uint32_t owner) {
  const auto counts = core.array<std::uint32_t>(this->counts(source), problem_.placement.experts());
  std::uint32_t rows = 0;
  for (std::uint32_t expert = problem_.placement.begin(owner);
       expert < problem_.placement.end(owner); ++expert) {
    rows += counts[expert];
  }
  return rows;
}

// Where the rows of `source` that have no private slot at `owner` begin there: behind as many as
// the sources before have in all.
std::uint64_t PplxGarden::first_overflow(Core& core, std::uint32_t source, std::uint32_t owner) {
  std::uint64_t slot = 0;
  for (std::uint32_t before = 0; before < source; ++before) {
    slot += rows_between(core, before, owner);
  }
  return slot;
}

emu::Task PplxGarden::send_overflow(Core& core, const SendPlan& plan, Handles& handles) {
  core.phase("send overflow");
  for (const std::uint32_t peer : far_[core.rank()]) {
    if (plan.rows(peer) <= private_rows()) continue;
    const std::uint64_t first = first_overflow(core, core.rank(), peer);
    std::vector<Piece> pieces;
    for (std::uint32_t n = private_rows(); n < plan.rows(peer); ++n) {
      pieces.push_back({overflow_slot(first + n - private_rows()), send_row(plan.first(peer) + n),
                        message_bytes()});
    }
    co_await write_slab(core, peer, std::move(pieces), handles);
  }
}

// Rows are dealt to the cores. While those of other nodes are on their way, the others are taken.
// At an expert they lie in that order: other nodes' first, then this one's, then the own.
emu::Task PplxGarden::receive(Core& core, const SendPlan& plan, std::uint32_t call) {
  core.phase("wait routes");
  co_await wait_worker(core, counted(), call);
  const std::uint32_t me = core.rank();
  std::vector<std::uint32_t> taken(local_experts(me), 0);
  const std::vector<ComingRow> far = rows_from(core, far_[me], taken);
  const std::vector<ComingRow> close = rows_from(core, near_peers_[me], taken);
  const std::vector<ComingRow> own = rows_from(core, {me}, taken);
  for (const std::uint32_t source : near_peers_[me]) {
    const std::uint32_t rows = rows_between(core, source, me);
    co_await wait_near(core, source, rows > private_rows() ? private_rows() + 1 : rows);
  }
  core.phase("take near rows");
  std::size_t number = far.size();
  for (const ComingRow& each : close) {
    if (!is_mine(core, number++)) continue;
    fabric::Address from = private_slot(each.source, each.index);
    if (each.index >= private_rows()) {
      from = overflow_slot(first_overflow(core, each.source, me) + each.index - private_rows());
      const fabric::Address there = send_row(first_at(core, each.source) + each.index);
      co_await core.get(each.source, there, from, message_bytes());
    }
    co_await take_message(core, from, first_row(each.local) + each.row);
  }
  for (const ComingRow& each : own) {
    if (!is_mine(core, number++)) continue;
    co_await take_message(core, send_row(plan.first(me) + each.index),
                          first_row(each.local) + each.row);
  }
  core.phase("wait far rows");
  co_await wait_worker(core, complete(), call);
  core.phase("take far rows");
  for (std::size_t i = 0; i < far.size(); ++i) {
    if (!is_mine(core, i)) continue;
    const ComingRow& each = far[i];
    fabric::Address from = private_slot(each.source, each.index);
    if (each.index >= private_rows()) {
      from = overflow_slot(first_overflow(core, each.source, me) + each.index - private_rows());
    }
    co_await take_message(core, from, first_row(each.local) + each.row);
  }
  if (copier(core) != 0) co_return;
  for (std::uint32_t local = 0; local < taken.size(); ++local) {
    core.write(expert_rows(local), taken[local]);
  }
}

}  // namespace orrery::moe
