// In which order a combine adds a token's rows, and where it rounds in between: what makes its
// output defined to the bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "moe/expert_placement.h"

namespace orrery::moe {

/// A tree over a token's entries. Without levels all rows are added in ascending k. A level puts
/// the rows of a group of experts together first: in the order in which they are, products and sums
/// in fp32, rounded to a row of bf16 that the next level, or the last sum, adds with weight 1;
/// groups ascend. Weights are applied where a row is first added.
class ReductionOrder {
 public:
  ReductionOrder() = default;

  /// The rows of experts of one device become one, then those of one `node` (by device; empty: no
  /// such level).
  static ReductionOrder by_device(const ExpertPlacement& placement,
                                  std::span<const std::uint32_t> nodes = {}) {
    ReductionOrder order;
    std::vector<std::uint32_t> device(placement.experts());
    std::vector<std::uint32_t> node(placement.experts());
    for (std::uint32_t expert = 0; expert < placement.experts(); ++expert) {
      device[expert] = placement.owner(expert);
      if (!nodes.empty()) node[expert] = nodes[device[expert]];
    }
    order.levels_.push_back(std::move(device));
    if (!nodes.empty()) order.levels_.push_back(std::move(node));
    return order;
  }

  bool is_plain() const { return levels_.empty(); }

  /// A row of the sum: of whose expert, and with which weight it is added.
  template <typename Row>
  struct Item {
    std::uint32_t expert;
    float weight;
    Row row;
  };
  /// The sum of `items` (k ascending). `add(span of items)` adds rows in this order and rounds: it
  /// gives a Row.
  template <typename Row, typename Add>
  Row sum(std::vector<Item<Row>> items, Add&& add) const {
    for (const std::vector<std::uint32_t>& group_of : levels_) {
      std::map<std::uint32_t, std::vector<Item<Row>>> groups;
      for (Item<Row>& item : items) groups[group_of[item.expert]].push_back(std::move(item));
      items.clear();
      for (const auto& [group, rows] : groups) {
        const std::uint32_t expert = rows.front().expert;
        items.push_back({expert, 1.0f, add(std::span<const Item<Row>>(rows))});
      }
    }
    return add(std::span<const Item<Row>>(items));
  }

 private:
  std::vector<std::vector<std::uint32_t>> levels_;  // group by expert
};

}  // namespace orrery::moe
