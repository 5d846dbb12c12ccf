#include "moe/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "emu/errors.h"
#include "emu/random.h"
#include "moe/expert_placement.h"
#include "moe/expert_popularity.h"
#include "moe/workload.h"

namespace orrery::moe {
namespace {

std::uint64_t scale_to(std::uint64_t random, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

/// The n-th random number of a token; a token has 2^20 of them.
std::uint64_t draw(const emu::RandomStream& stream, std::uint32_t token, std::uint32_t n) {
  return stream.at((std::uint64_t{token} << 20) | n);
}

/// Stretches of the cumulative weights that may not be drawn (again): sorted and disjoint.
class Excluded {
 public:
  void clear() {
    stretches_.clear();
    total_ = 0;
  }
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    auto place = stretches_.end();
    while (place != stretches_.begin() && std::prev(place)->begin > begin) --place;
    stretches_.insert(place, {begin, end});
    total_ += end - begin;
  }
  std::uint64_t total() const { return total_; }
  /// The position with `free` positions that are not excluded before it.
  std::uint64_t skip(std::uint64_t free) const {
    for (const Stretch& stretch : stretches_) {
      if (free < stretch.begin) break;
      free += stretch.end - stretch.begin;
    }
    return free;
  }

 private:
  struct Stretch {
    std::uint64_t begin, end;
  };
  std::vector<Stretch> stretches_;
  std::uint64_t total_ = 0;
};

/// Draws the experts of one token after another.
class Sampler {
 public:
  Sampler(const Workload& workload, std::uint64_t seed)
      : groups_(workload.expert_groups()),
        top_groups_(workload.top_groups()),
        allow_duplicates_(workload.gate().allow_duplicates()),
        cumulative_(workload.experts() + 1, 0) {
    const std::vector<std::uint64_t> weights = expert_popularity(workload, seed);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      cumulative_[i + 1] = cumulative_[i] + weights[i];
    }
    if (groups_ > 0) {
      for (std::uint32_t group = 0; group <= groups_; ++group) {
        group_cumulative_.push_back(
            cumulative_[std::size_t{group} * (workload.experts() / groups_)]);
      }
    }
  }

  void choose(const emu::RandomStream& stream, std::uint32_t token, std::span<std::int32_t> ids) {
    std::uint32_t n = 0;
    excluded_.clear();
    if (top_groups_ < groups_) exclude_other_groups(stream, token, n);
    for (std::int32_t& id : ids) {
      const std::size_t expert = pick(cumulative_, draw(stream, token, n++));
      id = static_cast<std::int32_t>(expert);
      if (!allow_duplicates_) excluded_.add(cumulative_[expert], cumulative_[expert + 1]);
    }
  }

 private:
  std::size_t pick(const std::vector<std::uint64_t>& cumulative, std::uint64_t random) const {
    const std::uint64_t position =
        excluded_.skip(scale_to(random, cumulative.back() - excluded_.total()));
    return static_cast<std::size_t>(
        std::upper_bound(cumulative.begin() + 1, cumulative.end(), position) -
        (cumulative.begin() + 1));
  }

  void exclude_other_groups(const emu::RandomStream& stream, std::uint32_t token,
                            std::uint32_t& n) {
    chosen_.clear();
    for (std::uint32_t i = 0; i < top_groups_; ++i) {
      const std::size_t group = pick(group_cumulative_, draw(stream, token, n++));
      excluded_.add(group_cumulative_[group], group_cumulative_[group + 1]);
      chosen_.push_back(group);
    }
    std::ranges::sort(chosen_);
    excluded_.clear();
    std::size_t next = 0;
    for (const std::size_t group : chosen_) {
      excluded_.add(group_cumulative_[next], group_cumulative_[group]);
      next = group + 1;
    }
    excluded_.add(group_cumulative_[next], group_cumulative_[groups_]);
  }

  std::uint32_t groups_;
  std::uint32_t top_groups_;
  bool allow_duplicates_;
  std::vector<std::uint64_t> cumulative_;        // by expert; one more than experts
  std::vector<std::uint64_t> group_cumulative_;  // by group
  Excluded excluded_;
  std::vector<std::size_t> chosen_;
};

/// Positive, descending, quotients of small integers: 64 to 127 over their sum.
void make_weights(const emu::RandomStream& stream, std::uint32_t token, std::span<float> weights) {
  std::array<std::uint32_t, kMaxTopK> parts;
  std::uint32_t sum = 0;
  std::uint64_t random = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (k % 8 == 0) random = draw(stream, token, static_cast<std::uint32_t>(k / 8));
    const std::uint32_t part = 64 + (random & 63);
    random >>= 8;
    sum += part;
    std::size_t place = k;
    for (; place > 0 && parts[place - 1] < part; --place) parts[place] = parts[place - 1];
    parts[place] = part;
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    weights[k] = static_cast<float>(parts[k]) / static_cast<float>(sum);
  }
}

void mask(RoutingTable& table, double share, std::uint64_t seed) {
  const auto threshold = static_cast<std::uint64_t>(share * 0x1p32);
  if (threshold == 0) return;
  for (std::uint32_t device = 0; device < table.devices(); ++device) {
    const emu::RandomStream stream(seed, device, "gate.mask");
    for (std::uint32_t token = 0; token < table.tokens(device); ++token) {
      std::uint32_t k = 0;
      for (std::int32_t& id : table.ids(device, token)) {
        if ((draw(stream, token, k++) >> 32) < threshold) id = RoutingTable::kMasked;
      }
    }
  }
}

void deal(const Trace& trace, std::uint32_t iteration, RoutingTable& table) {
  std::uint64_t next = iteration * (table.total_tokens() % trace.tokens()) % trace.tokens();
  for (std::uint32_t device = 0; device < table.devices(); ++device) {
    for (std::uint32_t token = 0; token < table.tokens(device); ++token) {
      std::ranges::copy(trace.ids(next), table.ids(device, token).begin());
      std::ranges::copy(trace.weights(next), table.weights(device, token).begin());
      if (++next == trace.tokens()) next = 0;
    }
  }
}

/// Gate::BALANCED: first experts of all devices, then second ones and so on; a token goes on where
/// the one before it stopped, or, where it goes to all devices several times, one turn later.
class Dealer {
 public:
  explicit Dealer(const ExpertPlacement& placement) : devices_(placement.devices()) {
    for (std::uint32_t local = 0; local < placement.max_local(); ++local) {
      for (std::uint32_t device = 0; device < devices_; ++device) {
        if (local < placement.count(device)) order_.push_back(placement.begin(device) + local);
      }
    }
  }

  void choose(std::uint32_t token, std::span<std::int32_t> ids) const {
    const std::uint64_t step = std::min<std::uint64_t>(ids.size(), devices_);
    for (std::size_t k = 0; k < ids.size(); ++k) {
      ids[k] = static_cast<std::int32_t>(order_[(token * step + k) % order_.size()]);
    }
  }

 private:
  std::uint32_t devices_;
  std::vector<std::uint32_t> order_;
};

void check_trace(const Workload& workload, const std::string& where, const Trace* trace) {
  if (trace == nullptr) {
    throw emu::ConfigError(where, "gate.kind", "TRACE", "a trace that has been read");
  }
  if (trace->top_k() != workload.top_k() || trace->experts() != workload.experts()) {
    throw emu::ConfigError(
        where, "gate.trace_file", workload.gate().trace_file(),
        fmt::format("a trace read for {} experts and top_k {}, not {} and {}", workload.experts(),
                    workload.top_k(), trace->experts(), trace->top_k()));
  }
}

}  // namespace

RoutingTable route(const Workload& workload, std::uint32_t devices, std::uint64_t seed,
                   std::uint32_t iteration, const Trace* trace) {
  const std::string where = workload_label(workload);
  check_workload(workload, where);
  const std::vector<std::uint32_t> tokens = token_counts(workload, devices, where);
  std::uint64_t entries = 0;
  for (const std::uint32_t count : tokens) entries += std::uint64_t{count} * workload.top_k();
  constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 31;
  if (entries > kMaxEntries) {
    throw emu::ConfigError(where, "tokens", fmt::format("{} (token, k) pairs", entries),
                           fmt::format("at most {} over all devices", kMaxEntries));
  }

  RoutingTable table(workload.experts(), workload.top_k(), tokens);
  const std::uint64_t iteration_seed = emu::combine64(seed, iteration);
  if (workload.gate().kind() == Gate::TRACE) {
    check_trace(workload, where, trace);
    deal(*trace, iteration, table);
  } else if (workload.gate().kind() == Gate::BALANCED) {
    const Dealer dealer(ExpertPlacement(workload.experts(), devices));
    for (std::uint32_t device = 0; device < devices; ++device) {
      const emu::RandomStream weights(iteration_seed, device, "gate.weights");
      for (std::uint32_t token = 0; token < tokens[device]; ++token) {
        dealer.choose(token, table.ids(device, token));
        make_weights(weights, token, table.weights(device, token));
      }
    }
  } else {
    Sampler sampler(workload, seed);
    for (std::uint32_t device = 0; device < devices; ++device) {
      const emu::RandomStream experts(iteration_seed, device, "gate.experts");
      const emu::RandomStream weights(iteration_seed, device, "gate.weights");
      for (std::uint32_t token = 0; token < tokens[device]; ++token) {
        sampler.choose(experts, token, table.ids(device, token));
        make_weights(weights, token, table.weights(device, token));
      }
    }
  }
  mask(table, workload.gate().masked_share(), iteration_seed);
  return table;
}

}  // namespace orrery::moe
