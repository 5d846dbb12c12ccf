// Products of several groups of rows with a weight matrix each, such as those of the experts of a
// device, at the grain of tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "emu/task.h"

namespace orrery::moe {

/// Of `rows` rows of `depth` elements with a matrix of depth x columns.
struct GemmGroup {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t depth = 0;
};

/// What this core spends on its tiles (device.tile_rows x tile_columns), which are dealt to the
/// cores of the kernel in turn, as persistent kernels do: group by group, all columns of a block of
/// rows one after the other. A tile takes as long as its core's share of the matrix units or, in
/// the first block of rows of a group, as reading its columns' weights of `weight_bytes` each from
/// memory, whichever is longer; later blocks find them in a cache. Where there are fewer tiles than
/// cores, each is cut along its depth. Rows read and written, and adding up such parts, are left
/// out. Moves no bytes; cores do not meet at the end.
emu::Task grouped_gemm(devices::Core& core, std::vector<GemmGroup> groups, double weight_bytes);

}  // namespace orrery::moe
