#include "moe/push_combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

namespace {

// Vector passes of the weighted sum, counted in the kernel's inner loop: widen, multiply, add. The
// final cast is one more.
constexpr int kAccumulatePasses = 3;

devices::Predicate sum_is_eight() {
  return {[](const std::byte* slot, std::uint64_t) {
            std::array<float, 8> floats;
            std::memcpy(&floats, slot, sizeof(floats));
            float sum = 0;
            for (const float each : floats) sum += each;
            return sum == 8.0f;
          },
          0, "eight floats that sum to 8.0"};
}

}  // namespace

void PushCombine::lay_out_combine(std::uint32_t halves) {
  const std::uint64_t entries = std::uint64_t{problem_.token_bound} * problem_.top_k();
  arrived_half_bytes_ = align_up(entries * sizeof(Arrived), 512);
  combine_window_ = layout_.rows(halves * entries, combine_slot_bytes());
  arrived_ = layout_.flat(halves * arrived_half_bytes_);
}

std::uint64_t PushCombine::touched_bytes(std::uint32_t device) const {
  // Live at once: outputs on their way back and what they become at their origins.
  std::uint64_t entries = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    entries = std::max<std::uint64_t>(entries, tokens(device, i) * problem_.top_k());
  }
  return MoeLayer::touched_bytes(device) + entries * combine_slot_bytes();
}

emu::Task PushCombine::push_combine(Core& core, std::uint32_t iteration, std::uint32_t half) {
  co_await send_outputs(core, half);
  co_await reduce(core, iteration, half);
}

// Every row goes back to its origin, followed by its own flag from the same core: one ordered
// channel. The start is rotated by rank, so that not all devices send to the first one at once.
emu::Task PushCombine::send_outputs(Core& core, std::uint32_t half) {
  core.phase("send outputs");
  std::uint32_t rows = 0;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    rows += core.load<std::uint32_t>(expert_rows(local));
  }
  const Share mine = share(rows, core.count(), core.index());
  Arrived flag;
  flag.fill(1.0f);
  PutHandle in_flight[2];  // of the kernel's queue, as in its dispatch
  std::uint32_t turn = 0;
  const auto rotation =
      static_cast<std::uint32_t>(std::uint64_t{core.rank()} * mine.size() / core.ranks());
  for (std::uint32_t i = 0; i < mine.size(); ++i) {
    const std::uint32_t row = mine.begin + (i + rotation) % mine.size();
    const auto origin = core.load<RowTag>(tag(row));
    co_await core.wait_complete(in_flight[turn]);
    co_await core.stream(output_row_bytes());
    in_flight[turn] = co_await core.give(origin.source, combine_slot(half, origin.token, origin.k),
                                         expert_output(row), output_row_bytes());
    turn ^= 1;
    co_await core.fence();
    co_await core.store(origin.source, arrived(half, origin.token, origin.k), flag);
  }
  co_await core.wait_local(in_flight[0]);
  co_await core.wait_local(in_flight[1]);
}

// The arithmetic of reduce() at one go, when its time has passed.
void PushCombine::add_up(Core& core, std::uint32_t half, std::uint32_t token,
                         std::span<const std::int32_t> ids, std::span<const float> weights) {
  thread_local std::vector<WeightedRow> rows;
  rows.clear();
  for (std::uint32_t k = 0; k < ids.size(); ++k) {
    if (ids[k] >= 0) rows.push_back({combine_slot(half, token, k), weights[k]});
  }
  weighted_sum(core, token, rows);
  for (const WeightedRow& each : rows) core.discard(each.row, combine_slot_bytes());
}

// Tokens are split over the cores: wait for a token's rows, then add them in ascending k.
emu::Task PushCombine::reduce(Core& core, std::uint32_t iteration, std::uint32_t half) {
  core.phase("reduce");
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  const std::uint32_t top_k = problem_.top_k();
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    const auto ids = ids_of(core, token);
    const auto weights = weights_of(core, token);
    Slots slots{arrived(half, token, 0), sizeof(Arrived), sizeof(Arrived), top_k, 0};
    for (std::uint32_t k = 0; k < top_k; ++k) {
      if (ids[k] < 0) slots.skip |= std::uint64_t{1} << k;
    }
    const auto writer = [this, ids](std::uint32_t k) {
      const auto expert = static_cast<std::uint32_t>(ids[k]);
      return fmt::format("device {} (row of expert {})", problem_.placement.owner(expert), expert);
    };
    const devices::Predicate ready = sum_is_eight();
    co_await core.wait_until(slots, ready, writer);
    for (std::uint32_t k = 0; k < top_k; ++k) {
      core.write(arrived(half, token, k), Arrived{});
      if (ids[k] < 0) continue;
      co_await core.stream(output_row_bytes());
      core.accept(combine_slot(half, token, k), output_row_bytes());
      co_await core.compute(kAccumulatePasses * core.costs().vector(problem_.hidden()));
    }
    add_up(core, half, token, ids, weights);
    co_await core.compute(core.costs().vector(problem_.hidden()));
    co_await core.stream(output_row_bytes());
  }
}

}  // namespace orrery::moe
