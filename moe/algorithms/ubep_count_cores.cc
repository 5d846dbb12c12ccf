#include "moe/algorithms/ubep_count_cores.h"

#include <algorithm>

namespace orrery::moe::ubep {

emu::Time send_time(const devices::Costs& costs, const DispatchSize& size, std::uint32_t senders) {
  const emu::Time streaming = costs.core_store.serialisation(size.slot_bytes);
  const auto of_one = static_cast<emu::Time>((size.entries + senders - 1) / senders);
  const auto of_port =
      static_cast<emu::Time>(size.entries) / static_cast<emu::Time>(std::max(size.cores / 2, 1u));
  return std::max(of_one * std::max(size.entry_time, streaming), of_port * streaming);
}

emu::Time count_time(const devices::Costs& costs, const DispatchSize& size,
                     std::uint32_t counters) {
  const std::uint64_t lists = std::uint64_t{size.ranks} * size.local_experts;
  const emu::Time work =
      static_cast<emu::Time>(size.experts) * kCountPasses * costs.vector(size.entries) +
      static_cast<emu::Time>(size.ranks) * costs.issue +
      static_cast<emu::Time>(lists) * costs.poll +
      costs.core_copy.serialisation(lists * sizeof(std::uint32_t) * size.cores);
  return work / counters + static_cast<emu::Time>(counters) * costs.poll;
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
