#include "moe/algorithms/ubep_schedule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "emu/random.h"
#include "moe/share.h"

namespace orrery::moe::ubep {

namespace {

// A batch's entries, expert by expert.
struct Grouped {
  std::vector<std::uint32_t> first;    // of each expert, in entries
  std::vector<std::uint32_t> entries;  // by expert, then as the batch lists them

  explicit Grouped(const Batch& batch) : first(batch.experts() + 1, 0) {
    for (const std::int32_t id : batch.ids) {
      if (id >= 0) ++first[static_cast<std::size_t>(id) + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    entries.resize(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t entry = 0; entry < batch.ids.size(); ++entry) {
      const std::int32_t id = batch.ids[entry];
      if (id >= 0) entries[next[static_cast<std::size_t>(id)]++] = entry;
    }
  }
  std::uint32_t count(std::uint32_t expert) const { return first[expert + 1] - first[expert]; }
  Send send(std::uint32_t expert, std::uint32_t place) const {
    return {entries[first[expert] + place], place};
  }
};

std::vector<std::uint32_t> rotation(const Batch& batch) {
  std::vector<std::uint32_t> order(batch.experts());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::uint32_t>((std::uint64_t{batch.first_expert} + i) % order.size());
  }
  return order;
}

// Experts that do not come out even are shared: by all cores in as many groups as there are such
// experts, each taking its group's entries in turn.
std::vector<Send> expert_major(const Batch& batch, std::uint32_t cores, std::uint32_t core) {
  const Grouped grouped(batch);
  const std::vector<std::uint32_t> order = rotation(batch);
  const std::uint32_t whole = batch.experts() / cores;
  const std::uint32_t left_over = batch.experts() % cores;
  std::vector<Send> mine;
  for (std::uint32_t i = core * whole; i < (core + 1) * whole; ++i) {
    for (std::uint32_t place = 0; place < grouped.count(order[i]); ++place) {
      mine.push_back(grouped.send(order[i], place));
    }
  }
  if (left_over == 0) return mine;
  const std::uint32_t group = core % left_over;
  const std::uint32_t group_size = (cores - group + left_over - 1) / left_over;
  const std::uint32_t expert = order[cores * whole + group];
  for (std::uint32_t place = core / left_over; place < grouped.count(expert); place += group_size) {
    mine.push_back(grouped.send(expert, place));
  }
  return mine;
}

// Entries by themselves: in the order of `entries`, those of [begin, end) with a step.
std::vector<Send> pick(const Batch& batch, std::span<const std::uint32_t> entries,
                       std::uint32_t begin, std::uint32_t end, std::uint32_t step) {
  std::vector<std::uint32_t> seen(batch.experts(), 0);
  std::vector<std::uint32_t> places(batch.ids.size(), 0);
  for (std::uint32_t entry = 0; entry < batch.ids.size(); ++entry) {
    const std::int32_t id = batch.ids[entry];
    if (id >= 0) places[entry] = seen[static_cast<std::size_t>(id)]++;
  }
  std::vector<Send> mine;
  for (std::uint32_t i = begin; i < end; i += step) {
    if (batch.ids[entries[i]] >= 0) mine.push_back({entries[i], places[entries[i]]});
  }
  return mine;
}

std::vector<std::uint32_t> shuffled(const Batch& batch) {
  std::vector<std::uint32_t> entries;
  for (std::uint32_t entry = 0; entry < batch.ids.size(); ++entry) {
    if (batch.ids[entry] >= 0) entries.push_back(entry);
  }
  emu::RandomStream random(batch.seed, batch.first_expert, "ubep random schedule");
  for (std::size_t i = entries.size(); i > 1; --i) {
    std::swap(entries[i - 1], entries[random.below(i)]);
  }
  return entries;
}

std::vector<Send> of_ranges(const Batch& batch, const Positions& positions,
                            std::span<const Range> ranges) {
  const Grouped grouped(batch);
  std::vector<std::uint32_t> begins;
  for (const Range& range : ranges) {
    if (range.size() > 0) begins.push_back(range.begin);
  }
  const std::vector<Located> located = locate_by_search(positions, begins);
  std::vector<Send> mine;
  std::size_t next = 0;
  for (const Range& range : ranges) {
    if (range.size() == 0) continue;
    Located at = located[next++];
    std::uint32_t left = range.size();
    for (; left > 0 && at.index < positions.order.size(); ++at.index, at.place = 0) {
      const std::uint32_t expert = positions.order[at.index];
      for (; left > 0 && at.place < grouped.count(expert); ++at.place, --left) {
        mine.push_back(grouped.send(expert, at.place));
      }
    }
  }
  return mine;
}

}  // namespace

Schedule schedule_kind(const std::string& name) {
  if (name == "expert-major") return Schedule::kExpertMajor;
  if (name == "entry-cyclic") return Schedule::kEntryCyclic;
  if (name == "random") return Schedule::kRandom;
  return name == "balanced" ? Schedule::kBalanced : Schedule::kHopAware;
}

std::vector<Send> sends(Schedule schedule, const Batch& batch, std::uint32_t cores,
                        std::uint32_t core) {
  const auto entries = static_cast<std::uint32_t>(batch.ids.size());
  switch (schedule) {
    case Schedule::kExpertMajor:
      return expert_major(batch, cores, core);
    case Schedule::kEntryCyclic: {
      std::vector<std::uint32_t> all(entries);
      std::iota(all.begin(), all.end(), 0);
      return pick(batch, all, core, entries, cores);
    }
    case Schedule::kRandom: {
      const std::vector<std::uint32_t> all = shuffled(batch);
      const Share mine = share(static_cast<std::uint32_t>(all.size()), cores, core);
      return pick(batch, all, mine.begin, mine.end, 1);
    }
    case Schedule::kBalanced: {
      const Positions at = positions(batch, false);
      const Share mine = share(at.total(), cores, core);
      const Range range{mine.begin, mine.end};
      return of_ranges(batch, at, std::span(&range, 1));
    }
    case Schedule::kHopAware: {
      const Positions at = positions(batch, true);
      std::array<std::uint32_t, kHopClasses> in_class{};
      for (std::uint32_t e = 0; e < batch.experts(); ++e) {
        in_class[batch.hop_class[e]] += batch.counts[e];
      }
      const std::vector<Range> ranges = hop_aware_ranges(in_class, cores, core);
      return of_ranges(batch, at, ranges);
    }
  }
  return {};
}

Positions positions(const Batch& batch, bool by_class) {
  Positions result;
  result.order = rotation(batch);
  if (by_class) {
    std::stable_sort(result.order.begin(), result.order.end(),
                     [&batch](std::uint32_t a, std::uint32_t b) {
                       return batch.hop_class[a] > batch.hop_class[b];
                     });
  }
  result.before.push_back(0);
  for (const std::uint32_t expert : result.order) {
    result.before.push_back(result.before.back() + batch.counts[expert]);
  }
  return result;
}

// Dealing positions out one by one, core after core, gives each core an even share of any interval
// of them, so of every class and of all; only these numbers are kept, and the classes cut by them.
std::vector<Range> hop_aware_ranges(std::span<const std::uint32_t, kHopClasses> in_class,
                                    std::uint32_t cores, std::uint32_t core) {
  std::vector<Range> ranges;
  std::uint32_t begin = 0;
  for (std::uint32_t each = kHopClasses; each-- > 0;) {
    const std::uint32_t end = begin + in_class[each];
    // Positions below `p` that are dealt to cores before `first`.
    const auto dealt = [cores](std::uint32_t p, std::uint32_t first) {
      return p / cores * first + std::min(p % cores, first);
    };
    const auto before = [&](std::uint32_t first) {
      return dealt(end, first) - dealt(begin, first);
    };
    ranges.push_back({begin + before(core), begin + before(core + 1)});
    begin = end;
  }
  return ranges;
}

std::uint32_t search_steps(std::uint32_t experts) {
  std::uint32_t steps = 0;
  for (std::uint64_t reach = 1; reach < experts; reach *= 4) ++steps;
  return steps;
}

std::uint32_t sort_passes(std::uint32_t entries) {
  std::uint32_t levels = 0;
  while ((std::uint64_t{1} << levels) < entries) ++levels;
  return levels * (levels + 1) / 2;
}

// Every lane keeps the interval [low, low + width) of experts that holds its position. A step cuts
// it in four and counts the pivots that are not above the position.
std::vector<Located> locate_by_search(const Positions& positions,
                                      std::span<const std::uint32_t> wanted) {
  const std::size_t lanes = wanted.size();
  const auto experts = static_cast<std::uint32_t>(positions.order.size());
  const std::uint32_t steps = search_steps(experts);
  std::uint32_t width = 1;
  for (std::uint32_t step = 0; step < steps; ++step) width *= 4;
  // Beyond the last expert nothing is below any position.
  std::vector<std::uint32_t> before(std::size_t{width} + 1, ~std::uint32_t{0});
  std::copy(positions.before.begin(), positions.before.end() - 1, before.begin());
  std::vector<std::uint32_t> low(lanes, 0);
  std::uint32_t* const at = low.data();
  const std::uint32_t* const table = before.data();
  const std::uint32_t* const position = wanted.data();
  while (width > 1) {
    width /= 4;
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint32_t base = at[lane];
      const std::uint32_t p = position[lane];
      const std::uint32_t quadrant = (p >= table[base + width] ? 1u : 0u) +
                                     (p >= table[base + 2 * width] ? 1u : 0u) +
                                     (p >= table[base + 3 * width] ? 1u : 0u);
      at[lane] = base + quadrant * width;
    }
  }
  std::vector<Located> located(lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    located[lane] = {low[lane], wanted[lane] - positions.before[low[lane]]};
  }
  return located;
}

std::vector<Located> locate_by_sort(std::span<const std::uint32_t> keys,
                                    std::span<const std::uint32_t> wanted) {
  std::vector<std::uint32_t> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Located> located;
  for (const std::uint32_t position : wanted) {
    const std::uint32_t key = sorted[position];
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin();
    located.push_back({key, position - static_cast<std::uint32_t>(first)});
  }
  return located;
}

}  // namespace orrery::moe::ubep
