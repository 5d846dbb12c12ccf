#include "moe/algorithms/tutel_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "moe/capacity.h"
#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::Slots;

namespace {

// Vector passes over all entries per expert, counted in the inner loop: compare, two of a
// cumulative sum, select.
constexpr int kLocatePasses = 4;

// A word of 64 bits with the call in its high half.
devices::Predicate word_of_call(std::uint32_t call) {
  return {[](const std::byte* slot, std::uint64_t wanted) {
            std::uint64_t word;
            std::memcpy(&word, slot, sizeof(word));
            return word >> 32 == wanted;
          },
          call, "the largest count of this call"};
}

}  // namespace

TutelGate::TutelGate(const Problem& problem, std::optional<std::uint32_t> capacity, Layout& layout)
    : problem_(problem), fixed_(capacity) {
  locations_ = layout.flat(std::uint64_t{problem.token_bound} * problem.top_k() * 4);
  counts_ = layout.flat(std::uint64_t{problem.placement.experts()} * 4);
  maxima_ = layout.flat(std::uint64_t{problem.devices} * 8);
  capacity_ = layout.flat(4);
}

emu::Task TutelGate::run(Core& core, std::uint32_t call, fabric::Address ids,
                         std::uint32_t entries) const {
  core.phase("locations");
  co_await locate(core, ids, entries);
  co_await core.barrier();
  core.phase("capacity");
  if (core.index() == 0) co_await agree(core, call);
  co_await core.barrier();
}

// Experts are split over the cores: a cumulative sum over each one's column of the one-hot routing
// gives every entry its location.
emu::Task TutelGate::locate(Core& core, fabric::Address ids, std::uint32_t entries) const {
  const Share mine = share(problem_.placement.experts(), core.count(), core.index());
  const auto experts = core.array<std::int32_t>(ids, entries);
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(mine.size() * kLocatePasses * core.costs().vector(entries));
  const auto found = locations(experts, problem_.top_k(), mine.begin, mine.end);
  std::vector<std::uint32_t> rows(mine.size(), 0);
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    const auto expert = static_cast<std::uint32_t>(experts[entry]);
    if (experts[entry] < 0 || expert < mine.begin || expert >= mine.end) continue;
    core.write(location_at(entry), found[entry]);
    ++rows[expert - mine.begin];
  }
  for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
    core.write(count_at(expert), rows[expert - mine.begin]);
  }
}

// An all-reduce of the largest count: each device tells every other its own.
emu::Task TutelGate::agree(Core& core, std::uint32_t call) const {
  if (fixed_) {
    core.write(capacity_, *fixed_);
    co_return;
  }
  const std::uint32_t experts = problem_.placement.experts();
  const auto counts = core.array<std::uint32_t>(counts_, experts);
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  co_await core.compute(core.costs().vector(experts));
  const std::uint64_t word = std::uint64_t{call} << 32 | most;
  for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
    co_await core.store(peer, maxima_ + std::uint64_t{core.rank()} * 8, word);
  }
  const auto writer = [](std::uint32_t slot) {
    return fmt::format("device {} core 0 (largest count)", slot);
  };
  const Slots slots{maxima_, 8, 8, problem_.devices, 0};
  const devices::Predicate ready = word_of_call(call);
  co_await core.wait_until(slots, ready, writer);
  std::uint32_t largest = 0;
  for (const std::uint64_t each : core.array<std::uint64_t>(maxima_, problem_.devices)) {
    largest = std::max(largest, static_cast<std::uint32_t>(each));
  }
  core.write(capacity_, largest);
}

}  // namespace orrery::moe
