// Products of several groups of rows with a weight matrix each, such as those of the experts of a
// device, at the grain of tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/core_team.h"

namespace orrery::moe {

/// Of `rows` rows of `depth` elements with a matrix of depth x columns.
struct GemmGroup {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t depth = 0;
};

/// Up to device.tile_rows x tile_columns of a product, or the part of its depth that one core
/// takes.
struct GemmTile {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t depth = 0;
  bool reads_weights = false;  // from memory; else they are in a cache
};

/// What this core spends on a tile: as long as its share of the matrix units takes or, where it
/// reads its columns' weights of `weight_bytes` each, as long as that, whichever is longer. Rows
/// read and written are left out. Moves no bytes.
emu::Task gemm_tile(devices::Core& core, GemmTile tile, double weight_bytes);

/// What this core, one of `team`, spends on its tiles (gemm_tile()), which are dealt to the team's
/// cores in turn, as persistent kernels do: group by group, all columns of a block of rows one
/// after the other. Weights are read in the first block of rows of a group; later blocks find them
/// in a cache. Where there are fewer tiles than cores, each is cut along its depth; adding up such
/// parts is left out. A core has its share of the device's matrix units whatever the others do: a
/// smaller team has fewer of them. Moves no bytes; cores do not meet at the end.
emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes,
                       CoreTeam team);
/// By all cores of the kernel.
emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes);

}  // namespace orrery::moe
