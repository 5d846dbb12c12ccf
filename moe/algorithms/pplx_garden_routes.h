// Where rows go and come from in pplx-garden's all-to-all: what a sender knows of its own rows, and
// a receiver of those that it gets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "moe/expert_placement.h"

namespace orrery::moe {

/// A device's own rows in order of (expert, token): those for a peer are neighbours.
class SendPlan {
 public:
  /// `ids`: of its entries by [token][k], -1 masked.
  SendPlan(const ExpertPlacement& placement, std::span<const std::int32_t> ids);

  /// Rows by expert.
  std::span<const std::uint32_t> counts() const { return counts_; }
  std::uint32_t position(std::size_t entry) const { return positions_[entry]; }
  /// Of the rows for a device: the position of the first one, and how many there are.
  std::uint32_t first(std::uint32_t device) const { return first_[placement_.begin(device)]; }
  std::uint32_t rows(std::uint32_t device) const {
    return first_[placement_.end(device)] - first(device);
  }

 private:
  const ExpertPlacement& placement_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint32_t> first_;  // position by expert, and the end
  std::vector<std::uint32_t> positions_;
};

/// The devices other than `device` in the order in which it sends to them. Those of its own node
/// beginning with the next; those of other nodes, of which each device of a node begins with
/// another one: a NIC here finishes a request before the next, and all of a node would send to one
/// device, where a real NIC takes turns between its queue pairs.
std::vector<std::uint32_t> peers_of(const std::vector<std::uint32_t>& nodes, std::uint32_t device,
                                    bool near);

/// A row that a device gets.
struct ComingRow {
  std::uint32_t source;
  std::uint32_t index;  // among those of its source
  std::uint32_t local;  // its expert here
  std::uint32_t row;    // among those of its expert
};
/// All rows that come from `sources`, given how many each has by [source][local expert], of
/// `stride` local experts; they take their places behind the `taken` rows of each expert, and count
/// there.
std::vector<ComingRow> coming_rows(std::span<const std::uint32_t> sources,
                                   std::span<const std::uint32_t> list_rows, std::uint32_t stride,
                                   std::vector<std::uint32_t>& taken);

}  // namespace orrery::moe
