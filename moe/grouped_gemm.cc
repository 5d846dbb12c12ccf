#include "moe/grouped_gemm.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::moe {

namespace {
std::uint32_t blocks(std::uint32_t size, std::uint32_t block) { return (size + block - 1) / block; }
}  // namespace

emu::Task gemm_tile(devices::Core& core, GemmTile tile, double weight_bytes) {
  const emu::Time begin = core.now();
  if (tile.reads_weights) {
    const double weights = weight_bytes * tile.columns * tile.depth;
    co_await core.stream(static_cast<std::uint64_t>(std::ceil(weights)));
  }
  const emu::Time left =
      core.costs().tile(tile.rows, tile.columns, tile.depth) - (core.now() - begin);
  co_await core.compute(std::max<emu::Time>(left, 0));
}

emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes,
                       CoreTeam team) {
  const devices::Costs& costs = core.costs();
  std::uint32_t tiles = 0;
  for (const GemmGroup& group : groups) {
    tiles += blocks(group.columns, costs.tile_columns) * blocks(group.rows, costs.tile_rows);
  }
  if (tiles == 0) co_return;
  const std::uint32_t parts = std::max(1u, team.count / tiles);
  std::uint32_t turn = 0;
  for (const GemmGroup& group : groups) {
    if (group.rows == 0) continue;
    GemmTile tile{0, 0, blocks(group.depth, parts), false};
    for (std::uint32_t row = 0; row < group.rows; row += costs.tile_rows) {
      tile.rows = std::min(costs.tile_rows, group.rows - row);
      tile.reads_weights = row == 0;
      for (std::uint32_t column = 0; column < group.columns; column += costs.tile_columns) {
        tile.columns = std::min(costs.tile_columns, group.columns - column);
        for (std::uint32_t part = 0; part < parts; ++part, ++turn) {
          if (turn % team.count != team.index(core)) continue;
          co_await gemm_tile(core, tile, weight_bytes);
        }
      }
    }
  }
}

emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes) {
  return grouped_gemm(core, std::move(groups), weight_bytes, CoreTeam::all(core));
}

}  // namespace orrery::moe
