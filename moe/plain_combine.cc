#include "moe/plain_combine.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;

PlainCombine::PlainCombine(const Problem& problem, Precision precision)
    : MoeLayer(problem, precision) {
  const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
  returned_ = layout_.rows(entries, row_stride());
  arrived_ = layout_.flat(entries * kFlagStride);
}

std::uint64_t PlainCombine::touched_bytes(std::uint32_t device) const {
  std::uint64_t entries = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    entries = std::max<std::uint64_t>(entries, tokens(device, i) * problem_.top_k());
  }
  return MoeLayer::touched_bytes(device) + entries * (row_stride() + kFlagStride);
}

emu::Task PlainCombine::combine(Core& core, std::uint32_t iteration) {
  co_await send_back(core, iteration);
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    co_await add_up(core, token, iteration);
  }
}

emu::Task PlainCombine::send_back(Core& core, std::uint32_t iteration) {
  std::uint32_t rows = 0;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    rows += core.load<std::uint32_t>(expert_rows(local));
  }
  const Share mine = share(rows, core.count(), core.index());
  devices::PutHandle last;
  for (std::uint32_t row = mine.begin; row < mine.end; ++row) {
    const auto origin = core.load<RowTag>(tag(row));
    const std::uint32_t to = entry(origin.token, origin.k);
    last = co_await core.give(origin.source, returned(to), expert_output(row), output_row_bytes());
    co_await core.fence();
    co_await core.store(origin.source, arrived(to), std::uint32_t{iteration + 1});
  }
  co_await core.wait_local(last);
}

emu::Task PlainCombine::add_up(Core& core, std::uint32_t token, std::uint32_t iteration) {
  std::vector<WeightedRow> rows;
  for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
    const std::uint32_t from = entry(token, k);
    const auto id = core.load<std::int32_t>(ids() + from * std::uint64_t{4});
    if (id < 0) continue;  // masked
    const auto expert = static_cast<std::uint32_t>(id);
    const auto writer = [this, expert](std::uint32_t) {
      return fmt::format("device {} (row of expert {})", problem_.placement.owner(expert), expert);
    };
    const devices::Slots flag{arrived(from)};
    const devices::Predicate ready = devices::word_equals(iteration + 1);
    co_await core.wait_until(flag, ready, writer);
    core.accept(returned(from), output_row_bytes());
    rows.push_back({returned(from), core.load<float>(weights() + from * std::uint64_t{4})});
    co_await core.stream(output_row_bytes());
    co_await core.compute(core.costs().vector(problem_.hidden()));
  }
  weighted_sum(core, token, rows);
}

}  // namespace orrery::moe
