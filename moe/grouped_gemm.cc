#include "moe/grouped_gemm.h"

#include <algorithm>
#include <cmath>

namespace orrery::moe {

namespace {
std::uint32_t blocks(std::uint32_t size, std::uint32_t block) { return (size + block - 1) / block; }
}  // namespace

emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes) {
  const devices::Costs& costs = core.costs();
  std::uint32_t tiles = 0;
  for (const GemmGroup& group : groups) {
    tiles += blocks(group.columns, costs.tile_columns) * blocks(group.rows, costs.tile_rows);
  }
  if (tiles == 0) co_return;
  const std::uint32_t parts = std::max(1u, core.count() / tiles);
  std::uint32_t turn = 0;
  for (const GemmGroup& group : groups) {
    if (group.rows == 0) continue;
    const std::uint32_t depth = blocks(group.depth, parts);
    for (std::uint32_t row = 0; row < group.rows; row += costs.tile_rows) {
      const std::uint32_t rows = std::min(costs.tile_rows, group.rows - row);
      for (std::uint32_t column = 0; column < group.columns; column += costs.tile_columns) {
        const std::uint32_t columns = std::min(costs.tile_columns, group.columns - column);
        for (std::uint32_t part = 0; part < parts; ++part, ++turn) {
          if (turn % core.count() != core.index()) continue;
          const emu::Time begin = core.now();
          if (row == 0) {
            const double weights = weight_bytes * columns * depth;
            co_await core.stream(static_cast<std::uint64_t>(std::ceil(weights)));
          }
          const emu::Time left = costs.tile(rows, columns, depth) - (core.now() - begin);
          co_await core.compute(std::max<emu::Time>(left, 0));
        }
      }
    }
  }
}

}  // namespace orrery::moe
