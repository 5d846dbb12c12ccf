// Comet, second kernel: the down projections by splits of columns, and what becomes of each split
// when it is finished.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "moe/algorithms/comet.h"

namespace orrery::moe::comet {

using devices::Piece;
using devices::PutHandle;
using devices::Slots;

namespace {
// Vector passes of a weighted sum: widen, multiply and add at once. The cast is one more.
constexpr int kAccumulatePasses = 2;
// Assumed, 8 to 32: warps of a thread block.
constexpr std::size_t kTokensAtOnce = 16;
}  // namespace

emu::Task Comet::down_tiles(Core& core, std::uint32_t iteration) {
  const double weight_bytes = problem_.workload.weight_bytes();
  std::vector<Block> all = blocks(core, iteration);
  for (Block& block : all) block.reads_weights = block.first == 0;
  for (std::uint32_t split = 0; split < splits_; ++split) {
    core.phase("down tiles");
    const std::vector<Job> tiles = jobs(all, Projection::kDown, columns_of(split));
    for (std::size_t i = compute().index(core); i < tiles.size(); i += compute().count) {
      const Job& job = tiles[i];
      const Block& block = job.block;
      const GemmTile tile{block.rows, job.columns.size(), job.depth, block.reads_weights};
      co_await gemm_tile(core, tile, weight_bytes);
      if (!job.is_first_part || block.group >= local_experts(core.rank())) continue;
      for (std::uint32_t at = block.first; at < block.first + block.rows; ++at) {
        const std::uint64_t offset = row(block.group, at) * row_stride();
        copy_columns(core, outputs_ + offset, computed_ + offset, job.columns);
      }
    }
    co_await splits_done_.arrive(core, compute(), split, iteration + 1);
  }
}

// Tokens of every device are split over the communication cores, here and at home alike: a core
// hears from those of its own number alone.
emu::Task Comet::reduce(Core& core, std::uint32_t iteration) {
  std::vector<PutHandle> sent;
  for (std::uint32_t split = 0; split < splits_; ++split) {
    core.phase("wait for columns");
    co_await splits_done_.wait_for_all(core, split, iteration + 1);
    core.phase("add rows of this device");
    co_await send_sums(core, split, iteration + 1, sent);
    if (split > 0) co_await add_devices(core, iteration, split - 1);
  }
  co_await add_devices(core, iteration, splits_ - 1);
  for (const PutHandle& handle : sent) co_await core.wait_local(handle);
}

// This device's rows of a token, in ascending k.
std::vector<Comet::WeightedRow> Comet::rows_of_token(Core& core, std::uint32_t home,
                                                     std::uint32_t token) {
  std::vector<WeightedRow> rows;
  for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
    const std::uint64_t at = entry(home, token, k);
    const auto id = core.load<std::int32_t>(id_at(at));
    if (id < 0 || problem_.placement.owner(static_cast<std::uint32_t>(id)) != core.rank()) continue;
    const std::uint32_t local = problem_.placement.local_index(static_cast<std::uint32_t>(id));
    const std::uint64_t of_expert = row(local, core.load<std::uint32_t>(row_at(at)));
    rows.push_back({outputs_ + of_expert * row_stride(), core.load<float>(weight_at(at))});
  }
  return rows;
}

// Warps have a token each: a core's loads, and its stores, of so many are on their way at once.
emu::Task Comet::add_columns(Core& core, const std::vector<Sum>& sums, Share columns) {
  const std::uint64_t bytes = std::uint64_t{2} * columns.size();
  const emu::Time pass = core.costs().vector(columns.size());
  for (std::size_t begin = 0; begin < sums.size(); begin += kTokensAtOnce) {
    const std::size_t end = std::min(begin + kTokensAtOnce, sums.size());
    std::uint64_t rows = 0;
    for (std::size_t i = begin; i < end; ++i) {
      rows += sums[i].rows.size();
      for (const WeightedRow& each : sums[i].rows) {
        core.accept(each.row + 2ull * columns.begin, bytes);
      }
    }
    if (rows > 0) co_await core.stream(rows * bytes);
    co_await core.compute((rows * kAccumulatePasses + (end - begin)) * pass);
    for (std::size_t i = begin; i < end; ++i) {
      sum_columns(core, sums[i].to, sums[i].rows, columns);
    }
    co_await core.stream((end - begin) * bytes);
  }
}

// Home after home, the next one first.
emu::Task Comet::send_sums(Core& core, std::uint32_t split, std::uint32_t call,
                           std::vector<PutHandle>& sent) {
  const Share columns = columns_of(split);
  const std::uint64_t first = std::uint64_t{2} * columns.begin;
  for (std::uint32_t step = 1; step <= core.ranks(); ++step) {
    const std::uint32_t home = device_at(core.rank(), step);
    const bool own = home == core.rank();
    const Share mine = share(tokens_of(core, home), comm().count, comm().index(core));
    std::vector<Piece> pieces;
    std::vector<Sum> sums;
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      std::vector<WeightedRow> rows = rows_of_token(core, home, token);
      if (rows.empty()) continue;
      const Address there = token_row(sums_in_, core.rank(), token);
      const Address sum = own ? there : token_row(partial_, home, token);
      pieces.push_back({there + first, sum + first, 2 * columns.size()});
      sums.push_back({sum, std::move(rows)});
    }
    co_await add_columns(core, sums, columns);
    if (own) continue;
    if (!pieces.empty()) {
      const std::span<const Piece> message = pieces;
      const PutHandle handle = co_await core.put(home, message);
      sent.push_back(handle);
      co_await core.fence();
    }
    co_await core.store(home, sum_flag(split, core.rank(), comm().index(core)), call);
  }
}

// The sums of all devices, in ascending order.
emu::Task Comet::add_devices(Core& core, std::uint32_t iteration, std::uint32_t split) {
  core.phase("wait for sums");
  const std::uint32_t lane = comm().index(core);
  const auto writer = [split](std::uint32_t source) {
    return fmt::format("device {} (sums of column split {})", source, split);
  };
  for (std::uint32_t step = 1; step < core.ranks(); ++step) {
    const std::uint32_t source = device_at(core.rank(), core.ranks() - step);
    const auto from = [&writer, source](std::uint32_t) { return writer(source); };
    const Slots slots{sum_flag(split, source, lane), 4, 4, 1, 0};
    const devices::Predicate called = devices::word_equals(iteration + 1);
    co_await core.wait_until(slots, called, from);
  }
  core.phase("add devices");
  const Share mine = share(tokens(core.rank(), iteration), comm().count, lane);
  std::vector<Sum> sums;
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    std::vector<std::uint8_t> has(core.ranks(), 0);
    for (const std::int32_t id : ids_of(core, token)) {
      if (id >= 0) has[problem_.placement.owner(static_cast<std::uint32_t>(id))] = 1;
    }
    std::vector<WeightedRow> rows;
    for (std::uint32_t device = 0; device < core.ranks(); ++device) {
      if (has[device] != 0) rows.push_back({token_row(sums_in_, device, token), 1.0f});
    }
    sums.push_back({output(token), std::move(rows)});
  }
  co_await add_columns(core, sums, columns_of(split));
}

}  // namespace orrery::moe::comet
