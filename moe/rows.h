// Input rows of tokens: what each device feeds to dispatch, and what the verifier regenerates.
#pragma once

#include <cstdint>
#include <span>

namespace orrery::moe {

/// Fills `row` (bf16, hidden elements) of a token: a pure function of the four numbers, the same on
/// any host, whatever the row's length (a shorter row is a prefix of a longer one). Values have
/// both signs and magnitudes in [0.125, 4). About one row in 64 is special instead, so that payload
/// which looks like a flag or like nothing at all is always exercised: all zeros, words of 1.0f
/// (0x3F800000, a flag's bytes), all -0.0, all 1.0, or 1.0 and -1.0 in turn.
void input_row(std::uint64_t seed, std::uint32_t iteration, std::uint32_t device,
               std::uint32_t token, std::span<std::uint16_t> row);

}  // namespace orrery::moe
