// Comet, first kernel: all tokens come here, and tiles of the gate and up projections begin when
// those that they need have come.
#include <algorithm>
#include <vector>

#include "devices/get_each.h"
#include "moe/algorithms/comet.h"

namespace orrery::moe::comet {

// Device after device, the next one first; its tokens are split over the cores.
emu::Task Comet::pull_tokens(Core& core, std::uint32_t call) {
  core.phase("pull tokens");
  for (std::uint32_t step = 1; step < core.ranks(); ++step) {
    const std::uint32_t source = device_at(core.rank(), step);
    const Share mine = share(tokens_of(core, source), comm().count, comm().index(core));
    std::vector<devices::Fetch> fetches;
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      fetches.push_back(
          {source, input(token), token_row(gathered_, source, token), payload_bytes()});
    }
    co_await devices::get_each(core, fetches);
    co_await tokens_here_.arrive(core, comm(), step, call);
  }
}

// Sorted by the last device that they need; dealt to the cores in turn.
emu::Task Comet::up_tiles(Core& core, std::uint32_t iteration) {
  std::vector<Block> sorted = blocks(core, iteration);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Block& a, const Block& b) { return a.last_step < b.last_step; });
  std::vector<std::uint8_t> warm(max_local_experts() + problem_.workload.shared_experts(), 0);
  for (Block& block : sorted) block.reads_weights = std::exchange(warm[block.group], 1) == 0;
  const double weight_bytes = problem_.workload.weight_bytes();
  const std::vector<Job> all = jobs(sorted, Projection::kUp, {0, expert_columns(Projection::kUp)});
  for (std::size_t i = compute().index(core); i < all.size(); i += compute().count) {
    const Job& job = all[i];
    core.phase("wait for tokens");
    co_await wait_tokens(core, job.block, iteration + 1);
    core.phase("up tile");
    if (job.columns.begin == 0 && job.is_first_part) take_rows(core, job.block);
    const GemmTile tile{job.block.rows, job.columns.size(), job.depth, job.block.reads_weights};
    co_await gemm_tile(core, tile, weight_bytes);
  }
}

emu::Task Comet::wait_tokens(Core& core, const Block& block, std::uint32_t call) {
  for (std::uint32_t step = std::max(block.first_step, 1u); step <= block.last_step; ++step) {
    co_await tokens_here_.wait_for_all(core, step, call);
  }
}

// The experts' outputs are there at once; whoever multiplies the down projections hands them on.
void Comet::take_rows(Core& core, const Block& block) {
  if (block.group >= local_experts(core.rank())) return;
  std::vector<ExpertRow> rows;
  for (std::uint32_t i = block.first; i < block.first + block.rows; ++i) {
    const auto each = core.load<Row>(list_at(row(block.group, i)));
    const Address from = each.from.source == core.rank()
                             ? input(each.from.token)
                             : token_row(gathered_, each.from.source, each.from.token);
    core.accept(from, payload_bytes());
    rows.push_back({block.group, each.from.source, each.index, from,
                    computed_ + row(block.group, i) * row_stride()});
  }
  apply_experts(core, rows);
}

}  // namespace orrery::moe::comet
