// A layer's attention on a device of a data-parallel group: all heads' weights, its own tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/grouped_gemm.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

/// Tokens that workload.context stands for.
std::uint32_t context_tokens(const Workload& workload);

/// Products before and after tokens attend; those of a step need those of the one before.
struct Projections {
  std::vector<std::vector<GemmGroup>> before;
  std::vector<std::vector<GemmGroup>> after;
};
/// Of `tokens` tokens. MLA is absorbed where tokens of a cache are looked back at one by one
/// (DECODE, or a sparse choice): queries are taken to the kept vectors and results from there, head
/// by head. Otherwise keys and values are made of all kept vectors.
Projections projections(const Workload& workload, std::uint32_t tokens);

/// Queries that attend together, and to how many keys. Their last `fresh` keys come from memory;
/// the others were read by earlier queries and are in a cache.
struct Queries {
  std::uint32_t rows = 0;
  std::uint32_t keys = 0;
  std::uint32_t fresh = 0;
};
/// What one key is: bytes in memory, elements that products go over, vector passes over the scores.
struct Keys {
  double bytes = 0;
  std::uint32_t depth = 0;
  int passes = 0;
};

/// What this core spends on its share of all queries' keys, which are dealt to the cores evenly in
/// blocks of device.tile_columns. Of one Queries it takes as long as reading its keys, the products
/// on its share of the matrix units (one fixed part), or the passes, whichever is longest: they
/// overlap. Merging what several cores made of the same queries is left out.
emu::Task attend(devices::Core& core, std::vector<Queries> queries, Keys keys);

/// What a core runs: kernels for the projections, for attending (first the indexer's scores and
/// choice, if there is one) and for the products behind. Norms, rotary embedding and
/// residuals are left out, as are rows read and written. Moves no bytes.
emu::Task attention(devices::Core& core, const Workload& workload, std::uint32_t tokens);

}  // namespace orrery::moe
