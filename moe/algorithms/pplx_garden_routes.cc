#include "moe/algorithms/pplx_garden_routes.h"

#include <algorithm>

namespace orrery::moe {

SendPlan::SendPlan(const ExpertPlacement& placement, std::span<const std::int32_t> ids)
    : placement_(placement),
      counts_(placement.experts(), 0),
      first_(placement.experts() + 1, 0),
      positions_(ids.size(), 0) {
  for (const std::int32_t id : ids) {
    if (id >= 0) ++counts_[static_cast<std::uint32_t>(id)];
  }
  for (std::uint32_t expert = 0; expert < placement.experts(); ++expert) {
    first_[expert + 1] = first_[expert] + counts_[expert];
  }
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t entry = 0; entry < ids.size(); ++entry) {
    if (ids[entry] >= 0) positions_[entry] = next[static_cast<std::uint32_t>(ids[entry])]++;
  }
}

std::vector<std::uint32_t> peers_of(const std::vector<std::uint32_t>& nodes, std::uint32_t device,
                                    bool near) {
  std::vector<std::uint32_t> peers;
  const auto devices = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t shift = 1; shift < devices; ++shift) {
    const std::uint32_t peer = (device + shift) % devices;
    if ((nodes[peer] == nodes[device]) == near) peers.push_back(peer);
  }
  if (near || peers.empty()) return peers;
  const auto before = std::count(nodes.begin(), nodes.begin() + device, nodes[device]);
  std::rotate(peers.begin(), peers.begin() + before % static_cast<std::ptrdiff_t>(peers.size()),
              peers.end());
  return peers;
}

std::vector<ComingRow> coming_rows(std::span<const std::uint32_t> sources,
                                   std::span<const std::uint32_t> list_rows, std::uint32_t stride,
                                   std::vector<std::uint32_t>& taken) {
  std::vector<ComingRow> rows;
  for (const std::uint32_t source : sources) {
    std::uint32_t index = 0;
    for (std::uint32_t local = 0; local < taken.size(); ++local) {
      const std::uint32_t count = list_rows[std::size_t{source} * stride + local];
      for (std::uint32_t n = 0; n < count; ++n) {
        rows.push_back({source, index++, local, taken[local]++});
      }
    }
  }
  return rows;
}

}  // namespace orrery::moe
