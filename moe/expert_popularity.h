// How likely each expert is, as 64-bit integers: the same on every host (R7).
#pragma once

#include <cstdint>
#include <vector>

#include "moe/workload.pb.h"

namespace orrery::moe {

/// Weight of each expert, by expert id: at least 1 each, with a sum below 2^63. Which expert is how
/// popular is a permutation that depends on the seed alone, not on iteration or device: a model's
/// hot experts stay hot through a run, and are not its first ids. UNIFORM and TRACE give equal
/// weights; ZIPF r^-s for popularity rank r from 1, in units of 2^-40; HOT_EXPERTS hot_factor
/// against 1.
std::vector<std::uint64_t> expert_popularity(const Workload& workload, std::uint64_t seed);

/// rank^-s for rank >= 1 and 0 <= s <= 10 with additions, multiplications and divisions of doubles
/// alone, which IEEE 754 defines to the last bit; libm's pow differs between hosts. Relative error
/// below 1e-12.
double zipf_weight(std::uint32_t rank, double s);

}  // namespace orrery::moe
