#include "moe/algorithms/ubep_count_cores.h"

#include <algorithm>

namespace orrery::moe::ubep {

namespace {

// For a core to send `puts` that take `own` time of its own in all: once its window is full, it has
// room for the next one when the first in it is acknowledged (Little's law; notes on algorithms
// 3.5).
emu::Time puts_time(const devices::Costs& costs, double puts, double own, emu::Time round_trip) {
  const double window = costs.outstanding_stores;
  double time = own;
  if (window > 0 && puts > window) {
    const double windows = puts / window;
    time = std::max(own, own / windows + (windows - 1) * static_cast<double>(round_trip));
  }
  return static_cast<emu::Time>(time);
}

}  // namespace

emu::Time send_time(const devices::Costs& costs, const DispatchSize& size, std::uint32_t senders) {
  const emu::Time streaming = costs.core_store.serialisation(size.slot_bytes);
  const auto of_one = static_cast<emu::Time>((size.entries + senders - 1) / senders);
  const auto of_port =
      static_cast<emu::Time>(size.entries) / static_cast<emu::Time>(std::max(size.cores / 2, 1u));
  const auto own = static_cast<double>(of_one * std::max(size.entry_time, streaming));
  return std::max(puts_time(costs, static_cast<double>(of_one), own, size.round_trip),
                  of_port * streaming);
}

emu::Time count_time(const devices::Costs& costs, const DispatchSize& size,
                     std::uint32_t counters) {
  const std::uint64_t lists = std::uint64_t{size.ranks} * size.local_experts;
  const emu::Time statuses =
      static_cast<emu::Time>(size.experts) * kCountPasses * costs.vector(size.entries) +
      static_cast<emu::Time>(size.ranks) * costs.issue;
  const emu::Time summing =
      static_cast<emu::Time>(lists) * costs.poll +
      costs.core_copy.serialisation(lists * sizeof(std::uint32_t) * size.cores);
  const double share = 1.0 / counters;
  return puts_time(costs, size.ranks * share, static_cast<double>(statuses) * share,
                   size.round_trip) +
         summing / counters + static_cast<emu::Time>(counters) * costs.poll;
}

std::uint32_t count_cores(const devices::Costs& costs, const DispatchSize& size) {
  std::uint32_t best = 1;
  emu::Time least = 0;
  for (std::uint32_t counters = 1; counters < size.cores; ++counters) {
    const emu::Time slower =
        std::max(send_time(costs, size, size.cores - counters), count_time(costs, size, counters));
    if (counters > 1 && slower >= least) continue;
    best = counters;
    least = slower;
  }
  return best;
}

}  // namespace orrery::moe::ubep
