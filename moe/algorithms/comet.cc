// Comet's options and registration, routing and the rows of every expert; comet.h says where the
// rest is.
#include "moe/algorithms/comet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace orrery::moe::comet {

using devices::Piece;
using devices::Slots;

namespace {

// Vector passes over all entries per expert: compare, two of a cumulative sum, select.
constexpr int kListPasses = 4;
// The first split of columns has all of a row's identity.
constexpr std::uint32_t kFewestColumns = kIdentityBytes / 2;

std::uint32_t split_unit(const Problem& problem) {
  const std::uint32_t tile = problem.costs.tile_columns;
  return (kFewestColumns + tile - 1) / tile * tile;
}

std::uint32_t blocks_of(std::uint32_t size, std::uint32_t block) {
  return (size + block - 1) / block;
}

// A word of 64 bits with the call in its high half.
devices::Predicate word_of_call(std::uint32_t call) {
  return {[](const std::byte* slot, std::uint64_t wanted) {
            std::uint64_t word;
            std::memcpy(&word, slot, sizeof(word));
            return word >> 32 == wanted;
          },
          call, "the routing of this call"};
}

}  // namespace

Comet::Comet(const Problem& problem, const Options& options)
    : FusedLayer(problem, Sums::kOwn),
      cores_(CommCores::of(problem, options)),
      split_unit_(split_unit(problem)),
      splits_(std::min(static_cast<std::uint32_t>(options.number("column_splits", 1, 1024)),
                       blocks_of(problem.hidden(), split_unit_))),
      expert_rows_bound_(problem.devices * most_list_rows()),
      tokens_here_(problem.devices, layout_),
      splits_done_(splits_, layout_) {
  reduce_in(ReductionOrder::by_device(problem.placement));
  const std::uint64_t tokens = std::uint64_t{problem.devices} * problem.token_bound;
  const std::uint64_t entries = tokens * problem.top_k();
  const std::uint64_t rows = std::uint64_t{max_local_experts()} * expert_rows_bound_;
  all_ids_ = layout_.flat(entries * 4);
  all_weights_ = layout_.flat(entries * 4);
  routing_flags_ = layout_.flat(std::uint64_t{problem.devices} * 8);
  counts_ = layout_.flat(std::uint64_t{max_local_experts()} * problem.devices * 4);
  list_ = layout_.flat(rows * sizeof(Row));
  row_of_ = layout_.flat(entries * 4);
  gathered_ = layout_.rows(tokens, row_stride());
  computed_ = layout_.rows(rows, row_stride());
  outputs_ = layout_.rows(rows, row_stride());
  partial_ = layout_.rows(tokens, row_stride());
  sums_in_ = layout_.rows(tokens, row_stride());
  sum_flags_ = layout_.flat(std::uint64_t{splits_} * problem.devices * cores_.count() * 4);
}

std::vector<OptionSpec> Comet::options() {
  return {CommCores::option(),
          {"column_splits",
           "4",
           "parts of the down projection's columns, whole tiles each, that are sent when they are "
           "finished",
           {}}};
}

// Every token is gathered and may come back as a sum of every device.
std::uint64_t Comet::touched_bytes(std::uint32_t device) const {
  std::uint64_t most_rows = 0;
  std::uint64_t most_tokens = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    std::uint64_t all = 0;
    for (std::uint32_t each = 0; each < problem_.devices; ++each) all += tokens(each, i);
    most_tokens = std::max(most_tokens, all);
    most_rows = std::max(most_rows, rows(device, i));
  }
  const std::uint64_t sums = most_tokens + std::uint64_t{problem_.devices} * problem_.token_bound;
  return FusedLayer::touched_bytes(device) + (most_tokens + 2 * most_rows + sums) * row_stride() +
         most_tokens * problem_.top_k() * 12 + most_rows * sizeof(Row);
}

Share Comet::columns_of(std::uint32_t split) const {
  const Share units = share(blocks_of(problem_.hidden(), split_unit_), splits_, split);
  return {units.begin * split_unit_, std::min(units.end * split_unit_, problem_.hidden())};
}

emu::Task Comet::layer(Core& core, std::uint32_t iteration) {
  co_await exchange_routing(core, iteration);
  co_await wait_routing(core, iteration + 1);
  co_await core.host_sync();
  co_await list_rows(core);
  co_await core.next_kernel();
  if (comm().has(core)) {
    co_await pull_tokens(core, iteration + 1);
  } else {
    co_await up_tiles(core, iteration);
  }
  co_await core.next_kernel();
  if (comm().has(core)) {
    co_await reduce(core, iteration);
  } else {
    co_await down_tiles(core, iteration);
  }
}

// Every device's choices and weights to every device.
emu::Task Comet::exchange_routing(Core& core, std::uint32_t iteration) {
  core.phase("routing");
  const std::uint32_t count = tokens(core.rank(), iteration);
  const std::uint32_t bytes = count * problem_.top_k() * 4;
  const std::uint64_t first = entry(core.rank(), 0, 0);
  const std::vector<Piece> pieces{{id_at(first), ids(), bytes},
                                  {weight_at(first), weights(), bytes}};
  const std::uint64_t word = std::uint64_t{iteration + 1} << 32 | count;
  const Share mine = share(core.ranks(), core.count(), core.index());
  devices::PutHandle last;
  for (std::uint32_t i = mine.begin; i < mine.end; ++i) {
    const std::uint32_t peer = device_at(core.rank(), i);
    if (bytes > 0 && peer == core.rank()) {
      co_await core.copy(id_at(first), ids(), bytes);
      co_await core.copy(weight_at(first), weights(), bytes);
    } else if (bytes > 0) {
      const std::span<const Piece> all = pieces;
      last = co_await core.put(peer, all);
      co_await core.fence();
    }
    co_await core.store(peer, routing_flag(core.rank()), word);
  }
  co_await core.wait_local(last);
}

emu::Task Comet::wait_routing(Core& core, std::uint32_t call) {
  const Share mine = share(core.ranks(), core.count(), core.index());
  const auto writer = [mine](std::uint32_t slot) {
    return fmt::format("device {} (routing)", mine.begin + slot);
  };
  const Slots slots{routing_flag(mine.begin), 8, 8, mine.size(), 0};
  const devices::Predicate ready = word_of_call(call);
  co_await core.wait_until(slots, ready, writer);
}

// Experts are split over the cores: their rows in the order in which devices' tokens will be here.
emu::Task Comet::list_rows(Core& core) {
  core.phase("index");
  const Share mine = share(local_experts(core.rank()), core.count(), core.index());
  std::uint64_t entries = 0;
  std::vector<std::uint32_t> next(mine.size(), 0);
  for (std::uint32_t step = 0; step < core.ranks(); ++step) {
    const std::uint32_t source = device_at(core.rank(), step);
    const std::uint32_t count = tokens_of(core, source) * problem_.top_k();
    entries += count;
    std::vector<std::uint32_t> found(mine.size(), 0);
    const std::uint64_t first = entry(source, 0, 0);
    const auto all = core.array<std::int32_t>(id_at(first), count);
    const std::uint32_t begin = problem_.placement.begin(core.rank()) + mine.begin;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t at = static_cast<std::uint32_t>(all[i]) - begin;
      if (all[i] < 0 || at >= mine.size()) continue;
      const RowTag tag{source, i / problem_.top_k(), i % problem_.top_k()};
      core.write(list_at(row(mine.begin + at, next[at])), Row{tag, found[at]++});
      core.write(row_at(first + i), next[at]++);
    }
    for (std::uint32_t at = 0; at < mine.size(); ++at) {
      core.write(count_at(mine.begin + at, source), found[at]);
    }
  }
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(mine.size() * kListPasses * core.costs().vector(entries));
}

// Blocks of rows by expert. Shared experts take this device's tokens, which are here.
std::vector<Comet::Block> Comet::blocks(Core& core, std::uint32_t iteration) {
  std::vector<Block> found;
  const std::uint32_t size = core.costs().tile_rows;
  const std::uint32_t locals = local_experts(core.rank());
  for (std::uint32_t local = 0; local < locals; ++local) {
    std::uint32_t rows = 0;
    for (std::uint32_t step = 0; step < core.ranks(); ++step) {
      std::uint32_t more = rows_from(core, local, device_at(core.rank(), step));
      while (more > 0) {
        if (rows % size == 0) found.push_back({local, rows, 0, step});
        const std::uint32_t taken = std::min(more, size - rows % size);
        found.back().rows += taken;
        found.back().last_step = step;
        rows += taken;
        more -= taken;
      }
    }
  }
  const std::uint32_t own = tokens(core.rank(), iteration);
  for (std::uint32_t i = 0; i < problem_.workload.shared_experts(); ++i) {
    for (std::uint32_t first = 0; first < own; first += size) {
      found.push_back({locals + i, first, std::min(size, own - first)});
    }
  }
  return found;
}

// Tiles of the blocks over these columns, or the parts of their depth that give every core one.
std::vector<Comet::Job> Comet::jobs(const std::vector<Block>& blocks, Projection projection,
                                    Share columns) {
  const std::uint32_t width = problem_.costs.tile_columns;
  const auto tiles = static_cast<std::uint32_t>(blocks.size()) * blocks_of(columns.size(), width);
  if (tiles == 0) return {};
  const std::uint32_t parts = std::max(1u, compute().count / tiles);
  const std::uint32_t depth = blocks_of(expert_tile(projection, 0, columns, false).depth, parts);
  std::vector<Job> found;
  for (const Block& block : blocks) {
    for (std::uint32_t begin = columns.begin; begin < columns.end; begin += width) {
      const Share tile{begin, std::min(begin + width, columns.end)};
      for (std::uint32_t part = 0; part < parts; ++part) {
        found.push_back({block, tile, depth, part == 0});
      }
    }
  }
  return found;
}

ORRERY_ALGORITHM(comet, "comet",
                 "Comet: two kernels that overlap tiles with all tokens on their way in and sums "
                 "on their way out",
                 Comet, Comet::options())

}  // namespace orrery::moe::comet
