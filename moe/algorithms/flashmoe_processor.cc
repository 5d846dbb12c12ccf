// FlashMoE, processors: tiles of both projections; the last tile of a block sends its rows back to
// their owner; blocks that are back are added to their tokens as they come.
#include <algorithm>
#include <utility>
#include <vector>

#include "moe/algorithms/flashmoe.h"
#include "moe/share.h"

namespace orrery::moe::flashmoe {

using devices::Core;
using devices::Piece;

namespace {
// Vector passes of a weighted sum: widen, multiply, add.
constexpr int kAccumulatePasses = 3;
constexpr double kWeightBytes = 2;  // bf16
}  // namespace

std::uint32_t Flashmoe::up_columns() const {
  return (problem_.workload.expert_intermediate() + tile_columns_ - 1) / tile_columns_;
}
std::uint32_t Flashmoe::down_columns() const {
  return (problem_.hidden() + tile_columns_ - 1) / tile_columns_;
}

// A core has its share of the matrix units and of the memory's bandwidth.
emu::Time Flashmoe::tile_time(double flop, double weight_bytes, bool cold) const {
  const devices::Costs& costs = problem_.costs;
  const emu::Time read =
      cold ? costs.hbm.serialisation(static_cast<std::uint64_t>(weight_bytes)) : emu::Time{0};
  return std::max(costs.matrix(flop), read) * costs.cores;
}

std::uint32_t Flashmoe::rows_of_unit(Core& core, std::uint32_t iteration,
                                     std::uint32_t unit) const {
  return core.load<Announcement>(at_.packet_flag(set(iteration), unit)).rows;
}

emu::Task Flashmoe::processor(Core& core, std::uint32_t iteration) {
  Outgoing out;
  co_await send_packets(core, iteration, out);
  for (std::uint32_t slot = 0;; ++slot) {
    core.phase("wait for a task");
    Note task;
    co_await next_note(core, at_.doorbell(core.index(), slot), iteration, task);
    if (task.kind == Note::kStop) break;
    co_await run_task(core, iteration, task, out);
  }
  co_await finish_tokens(core, iteration);
  co_await give_up_sources(core, out);
}

emu::Task Flashmoe::run_task(Core& core, std::uint32_t iteration, const Note& task, Outgoing& out) {
  Note done = note(iteration, Note::kTileDone, task.unit, task.block);
  done.column = core.index() & (kMostColumns - 1);
  if (task.kind == Note::kUp || task.kind == Note::kDown) {
    const bool up = task.kind == Note::kUp;
    core.phase(up ? "up tile" : "down tile");
    const std::uint32_t rows = rows_in(rows_of_unit(core, iteration, task.unit), task.block);
    const double hidden = problem_.hidden();
    const double intermediate = problem_.workload.expert_intermediate();
    const double width = up ? intermediate : hidden;
    const double columns = std::min<double>(tile_columns_, width - task.column * tile_columns_);
    // Gate and up projection, or down projection.
    const double weights = up ? 2 * hidden * columns : intermediate * columns;
    if (up && task.column == 0) {
      for (std::uint32_t row = 0; row < rows; ++row) {
        core.accept(at_.dispatched(set(iteration), task.unit, task.block * block_rows_ + row),
                    payload_bytes());
      }
    }
    const emu::Time time = tile_time(2 * weights * rows, kWeightBytes * weights, task.cold != 0);
    co_await core.compute(time);
    const Address counter = at_.tiles_done(task.unit, task.block);
    const std::uint32_t before = co_await core.fetch_add(counter, 1);
    if (before + 1 == up_columns()) done.kind = Note::kUpDone;
    if (before + 1 == up_columns() + down_columns()) {
      core.write(counter, std::uint32_t{0});
      co_await send_back(core, iteration, task.unit, task.block, out);
    }
  } else if (task.kind == Note::kCombine) {
    core.phase("combine");
    co_await add_block(core, task);
    done.kind = Note::kDone;
  } else {
    core.phase("signal returned rows");
    co_await flush(core, out);
    done.kind = Note::kDone;
  }
  co_await post(core, 0, done);
}

Flashmoe::Signal Flashmoe::block_signal(Core& core, std::uint32_t iteration, std::uint32_t unit,
                                        std::uint32_t block) const {
  const std::uint32_t expert = problem_.placement.begin(core.rank()) + at_.local_of(unit);
  const std::uint32_t rows = rows_in(rows_of_unit(core, iteration, unit), block);
  return {at_.source_of(unit), at_.return_flag(expert, block), announcement(iteration, rows), true,
          true};
}

emu::Task Flashmoe::send_back(Core& core, std::uint32_t iteration, std::uint32_t unit,
                              std::uint32_t block, Outgoing& out) {
  const std::uint32_t owner = at_.source_of(unit);
  const std::uint32_t local = at_.local_of(unit);
  const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
  const std::uint32_t first = block * block_rows_;
  const std::uint32_t rows = rows_in(rows_of_unit(core, iteration, unit), block);
  const bool self = owner == core.rank();
  const bool near = is_near(core.rank(), owner);
  std::vector<ExpertRow> block_of_rows;
  for (std::uint32_t row = first; row < first + rows; ++row) {
    block_of_rows.push_back({local, owner, row, at_.dispatched(set(iteration), unit, row),
                             self ? at_.returned(expert, row) : at_.output(unit, row)});
  }
  apply_experts(core, block_of_rows);
  for (const ExpertRow& row : block_of_rows) core.discard(row.from, row_stride());
  co_await core.stream(std::uint64_t{rows} * output_row_bytes());
  if (!near && signaling_ == Signaling::kDecoupled) {
    const std::uint32_t group = group_of_unit(core.rank(), unit);
    co_await post(core, 1 + sender_of(group), note(iteration, Note::kFinished, unit, block));
    co_return;
  }
  const Signal signal = block_signal(core, iteration, unit, block);
  if (is_one_request(core, owner, true)) {
    co_await put_block(core, iteration, unit, block, out, &signal);
    co_return;
  }
  if (!self) co_await put_block(core, iteration, unit, block, out);
  if (!near && signaling_ == Signaling::kReordered) {
    out.signals.push_back(signal);
    co_return;
  }
  if (!self) co_await order(core, near, true);
  co_await tell(core, signal);
}

// The outputs of a block as one put.
emu::Task Flashmoe::put_block(Core& core, std::uint32_t iteration, std::uint32_t unit,
                              std::uint32_t block, Outgoing& out, const Signal* signal) {
  const std::uint32_t expert = problem_.placement.begin(core.rank()) + at_.local_of(unit);
  const std::uint32_t first = block * block_rows_;
  const std::uint32_t rows = rows_in(rows_of_unit(core, iteration, unit), block);
  std::vector<Piece> pieces;
  for (std::uint32_t row = first; row < first + rows; ++row) {
    pieces.push_back({at_.returned(expert, row), at_.output(unit, row), output_row_bytes()});
  }
  co_await put(core, at_.source_of(unit), std::move(pieces), out, signal);
}

emu::Task Flashmoe::add_block(Core& core, const Note& task) {
  const std::uint32_t expert = task.unit;
  const std::uint32_t first = task.block * block_rows_;
  const auto flag = core.load<Announcement>(at_.return_flag(expert, task.block));
  for (std::uint32_t row = first; row < first + flag.rows; ++row) {
    core.accept(at_.returned(expert, row), output_row_bytes());
  }
  co_await core.stream(std::uint64_t{flag.rows} * output_row_bytes());
  co_await core.compute(flag.rows * kAccumulatePasses * core.costs().vector(problem_.hidden()));
  for (std::uint32_t row = first; row < first + flag.rows; ++row) {
    const auto entry = core.load<std::uint32_t>(at_.list_entry(expert, row));
    const auto weight = core.load<float>(weights() + entry * std::uint64_t{4});
    add_to_sum(core, entry / problem_.top_k(), at_.returned(expert, row), weight);
    core.discard(at_.returned(expert, row), row_stride());
  }
  co_await core.stream(std::uint64_t{flag.rows} * problem_.hidden() * sizeof(float));
}

// All rows are added by now.
emu::Task Flashmoe::finish_tokens(Core& core, std::uint32_t iteration) {
  core.phase("round");
  const Share mine = share(tokens(core.rank(), iteration), processors(), core.index());
  co_await core.stream(std::uint64_t{mine.size()} * problem_.hidden() * sizeof(float));
  co_await core.compute(mine.size() * core.costs().vector(problem_.hidden()));
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) round_sum(core, token);
  co_await core.stream(std::uint64_t{mine.size()} * output_row_bytes());
}

}  // namespace orrery::moe::flashmoe
