#include "moe/capacity.h"

#include <utility>

namespace orrery::moe {

std::vector<std::uint32_t> locations(std::span<const std::int32_t> ids, std::uint32_t top_k,
                                     std::uint32_t first, std::uint32_t last) {
  std::vector<std::uint32_t> found(ids.size(), 0);
  std::vector<std::uint32_t> placed(last - first, 0);
  for (std::uint32_t k = 0; k < top_k; ++k) {
    for (std::size_t entry = k; entry < ids.size(); entry += top_k) {
      if (ids[entry] < 0) continue;
      const auto expert = static_cast<std::uint32_t>(ids[entry]);
      if (expert >= first && expert < last) found[entry] = placed[expert - first]++;
    }
  }
  return found;
}

Problem with_capacity(Problem problem, std::uint32_t capacity, std::uint64_t* dropped) {
  std::uint64_t count = 0;
  for (std::size_t iteration = 0; iteration < problem.tables.size(); ++iteration) {
    RoutingTable& table = problem.tables[iteration];
    for (std::uint32_t device = 0; device < table.devices(); ++device) {
      const auto found =
          locations(table.ids(device), table.top_k(), 0, problem.placement.experts());
      for (std::uint32_t token = 0; token < table.tokens(device); ++token) {
        const auto ids = table.ids(device, token);
        for (std::uint32_t k = 0; k < ids.size(); ++k) {
          if (ids[k] < 0 || found[std::size_t{token} * ids.size() + k] < capacity) continue;
          ids[k] = RoutingTable::kMasked;
          ++count;
        }
      }
    }
    problem.arrivals[iteration] = Arrivals(table);
  }
  if (dropped != nullptr) *dropped = count;
  return problem;
}

Admitted::Admitted(const Problem& problem, double factor) : given_(problem) {
  if (factor == 0) return;
  const std::uint32_t experts = problem.placement.experts();
  const std::uint32_t even = (problem.token_bound + experts - 1) / experts;
  capacity_ = problem.top_k() * static_cast<std::uint32_t>(factor * even);
  capped_.emplace(with_capacity(problem, *capacity_, &dropped_));
}

std::uint64_t Admitted::admitted_rows() const {
  std::uint64_t rows = 0;
  for (const RoutingTable& table : admitted().tables) rows += table.total_entries();
  return rows;
}

}  // namespace orrery::moe
