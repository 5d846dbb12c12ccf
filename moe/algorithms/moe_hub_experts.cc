#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "moe/algorithms/moe_hub.h"

namespace orrery::moe {

using devices::Core;

// Waits until a block is complete: it is full, or all sources have ended and it holds what is
// left. Its rows; 0 if there are none.
emu::Task MoeHub::wait_block(Core& core, std::uint32_t half, Block& block) {
  const fabric::Address word = at_.word(half, block.local, block.index);
  const devices::Place ended{at_.ended(half, block.local, 0), 4 * problem_.devices};
  const devices::Place places[] = {{word, 4}, ended};
  const auto ready = [&](std::uint32_t place) {
    if (place == 0) return words_in(core, {word, 4})[0] >= at_.block_rows();
    const auto ends = words_in(core, ended);
    return std::find(ends.begin(), ends.end(), 0) == ends.end();
  };
  const auto expected = [&](std::uint32_t) { return late_sources(core, half, block.local); };
  const std::uint64_t seen =
      co_await core.wait_any(places, ready, core.costs().poll, "a complete block", expected);
  block.rows = at_.block_rows();
  if (seen == 1) co_return;
  std::uint64_t all = 0;
  for (const std::uint32_t end : core.array<std::uint32_t>(ended.address, problem_.devices)) {
    all += end - 1;
  }
  all = std::min<std::uint64_t>(all, at_.region_rows());
  const std::uint64_t before = std::uint64_t{block.index} * at_.block_rows();
  block.rows = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(all - std::min(all, before), at_.block_rows()));
  if (block.rows == 0 || sabotage_ == "trust-end") co_return;
  const devices::Slots slot{word, 4, 8, 1, 0};
  const devices::Predicate enough = devices::word_at_least(block.rows);
  co_await core.wait_until(slot, enough, expected);
}

// One kernel: a block's up projection, then the down projection of one so much earlier that other
// cores have had time for its tiles, and the rows of one as much before that.
emu::Task MoeHub::run_blocks(Core& core, std::uint32_t half) {
  core.phase("blocks");
  const std::size_t after_up = 1 + core.count() / tiles(core, Projection::kUp);
  const std::size_t after_down = after_up + 1 + core.count() / tiles(core, Projection::kDown);
  std::vector<Block> blocks;
  std::uint32_t turns[3] = {0, 0, 0};
  const std::uint32_t experts = local_experts(core.rank());
  std::vector<bool> over(experts, false);
  for (std::uint32_t index = 0; index < at_.blocks(); ++index) {
    for (std::uint32_t local = 0; local < experts; ++local) {
      if (over[local]) continue;
      Block block{local, index, 0};
      co_await wait_block(core, half, block);
      over[local] = block.rows < at_.block_rows();
      if (block.rows == 0) continue;
      blocks.push_back(block);
      const std::size_t n = blocks.size();
      co_await project_up(core, half, block, turns[0]);
      if (n > after_up) co_await project_down(core, blocks[n - 1 - after_up], true, turns[1]);
      if (n > after_down) co_await return_rows(core, half, blocks[n - 1 - after_down], turns[2]);
    }
  }
  const std::size_t n = blocks.size();
  for (std::size_t i = n - std::min(n, after_up); i < n; ++i) {
    co_await project_down(core, blocks[i], true, turns[1]);
  }
  for (std::size_t i = n - std::min(n, after_down); i < n; ++i) {
    co_await return_rows(core, half, blocks[i], turns[2]);
  }
}

// A kernel for each step.
emu::Task MoeHub::run_kernels(Core& core, std::uint32_t half) {
  core.phase("wait for all rows");
  std::vector<Block> blocks;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    for (std::uint32_t index = 0; index < at_.blocks(); ++index) {
      Block block{local, index, 0};
      co_await wait_block(core, half, block);
      if (block.rows > 0) blocks.push_back(block);
      if (block.rows < at_.block_rows()) break;
    }
  }
  co_await core.next_kernel();
  core.phase("up");
  std::uint32_t turns[3] = {0, 0, 0};
  for (const Block& block : blocks) co_await project_up(core, half, block, turns[0]);
  co_await core.next_kernel();
  core.phase("down");
  for (const Block& block : blocks) co_await project_down(core, block, false, turns[1]);
  co_await core.next_kernel();
  core.phase("return");
  for (const Block& block : blocks) co_await return_rows(core, half, block, turns[2]);
}

// Tiles are dealt to the cores. The one that has the first takes the rows.
emu::Task MoeHub::project_up(Core& core, std::uint32_t half, Block block, std::uint32_t& turns) {
  const std::uint32_t columns = expert_columns(Projection::kUp);
  const std::uint32_t width = core.costs().tile_columns;
  for (std::uint32_t begin = 0; begin < columns; begin += width) {
    if (turns++ % core.count() != core.index()) continue;
    if (begin == 0) take_rows(core, half, block);
    const Share part{begin, std::min(begin + width, columns)};
    co_await run_expert_tile(core, Projection::kUp, block.rows, part, block.index == 0);
    if (by_blocks()) co_await core.atomic_add(core.rank(), at_.up(block.local, block.index), 1);
  }
}

void MoeHub::take_rows(Core& core, std::uint32_t half, const Block& block) {
  std::vector<ExpertRow> rows;
  for (std::uint32_t i = 0; i < block.rows; ++i) {
    const std::uint32_t index = block.index * at_.block_rows() + i;
    const fabric::Address row = at_.row(half, block.local, index);
    core.accept(row, message_bytes());
    const auto name = core.load<Name>(name_of(row));
    rows.push_back({block.local, name.source, name.order, row, at_.result(block.local, index)});
  }
  apply_experts(core, rows);
}

emu::Task MoeHub::project_down(Core& core, Block block, bool waits, std::uint32_t& turns) {
  const std::uint32_t columns = expert_columns(Projection::kDown);
  const std::uint32_t width = core.costs().tile_columns;
  bool waited = !waits;
  for (std::uint32_t begin = 0; begin < columns; begin += width) {
    if (turns++ % core.count() != core.index()) continue;
    if (!waited) co_await wait_tiles(core, at_.up(block.local, block.index), Projection::kUp);
    waited = true;
    const Share part{begin, std::min(begin + width, columns)};
    co_await run_expert_tile(core, Projection::kDown, block.rows, part, block.index == 0);
    if (waits) co_await core.atomic_add(core.rank(), at_.down(block.local, block.index), 1);
  }
}

emu::Task MoeHub::wait_tiles(Core& core, fabric::Address word, Projection projection) {
  const devices::Slots slot{word, 4, 8, 1, 0};
  const devices::Predicate enough = devices::word_at_least(tiles(core, projection));
  const auto expected = [&core](std::uint32_t) {
    return fmt::format("device {} itself (tiles of other cores)", core.rank());
  };
  co_await core.wait_until(slot, enough, expected);
}

}  // namespace orrery::moe
