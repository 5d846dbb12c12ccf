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

  /// The rows of experts of one device become one, in the place of the first of them; then places
  /// are added in pairs, (0+1), (2+3), and so on, and their sums again until at most two are left,
  /// each pair rounded. What has no partner stays as it is.
  static ReductionOrder in_pairs(const ExpertPlacement& placement, std::uint32_t top_k) {
    ReductionOrder order = by_device(placement);
    order.places_ = top_k;
    order.by_place_ = true;
    return order;
  }

  /// The rows of experts of one device become one, in the place of the first of them; then places
  /// ascend.
  static ReductionOrder in_places(const ExpertPlacement& placement) {
    ReductionOrder order = by_device(placement);
    order.by_place_ = true;
    return order;
  }

  bool is_plain() const { return levels_.empty(); }

  /// A row of the sum: of whose expert, with which weight it is added, and which of the token's
  /// choices it is (the first, of a group).
  template <typename Row>
  struct Item {
    std::uint32_t expert;
    float weight;
    Row row;
    std::uint32_t k = 0;
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
        const Item<Row>& first = rows.front();
        items.push_back({first.expert, 1.0f, add(std::span<const Item<Row>>(rows)), first.k});
      }
    }
    add_pairs(items, add);
    return add(std::span<const Item<Row>>(items));
  }

  /// What in_pairs() does with the sums of devices: leaves at most two of `items`, which are in
  /// any order. For algorithms, which do the same.
  template <typename Row, typename Add>
  void add_pairs(std::vector<Item<Row>>& items, Add&& add) const {
    if (!by_place_) return;
    const auto earlier = [](const Item<Row>& a, const Item<Row>& b) { return a.k < b.k; };
    std::sort(items.begin(), items.end(), earlier);
    for (std::uint32_t places = places_; places > 2; places = (places + 1) / 2) {
      std::vector<Item<Row>> sums;
      for (Item<Row>& item : items) {
        if (sums.empty() || sums.back().k != item.k / 2) {
          item.k /= 2;
          sums.push_back(std::move(item));
          continue;
        }
        const std::vector<Item<Row>> pair{sums.back(), std::move(item)};
        sums.back() = {pair[0].expert, 1.0f, add(std::span<const Item<Row>>(pair)), pair[0].k};
      }
      items = std::move(sums);
    }
  }

 private:
  std::vector<std::vector<std::uint32_t>> levels_;  // group by expert
  bool by_place_ = false;     // sums of devices are in the order of choices, not of devices
  std::uint32_t places_ = 0;  // that are added in pairs; 0: none are
};

}  // namespace orrery::moe
