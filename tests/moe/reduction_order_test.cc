#include "moe/reduction_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "moe/bf16.h"
#include "moe/reference.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using Item = ReductionOrder::Item<std::string>;

// A sum as text: what was added in which order, brackets around what was rounded.
std::string add(std::span<const Item> rows) {
  std::string text = "(";
  for (const Item& each : rows) {
    if (text.size() > 1) text += "+";
    if (each.weight != 1.0f) text += std::to_string(static_cast<int>(each.weight)) + "*";
    text += each.row;
  }
  return text + ")";
}

std::string sum(const ReductionOrder& order, const std::vector<std::uint32_t>& experts) {
  std::vector<Item> items;
  for (std::size_t k = 0; k < experts.size(); ++k) {
    items.push_back({experts[k], static_cast<float>(k + 2), "e" + std::to_string(experts[k]),
                     static_cast<std::uint32_t>(k)});
  }
  return order.sum<std::string>(std::move(items), add);
}

TEST(ReductionOrder, PlainIsAscendingK) {
  EXPECT_EQ(sum(ReductionOrder(), {5, 0, 3}), "(2*e5+3*e0+4*e3)");
  EXPECT_TRUE(ReductionOrder().is_plain());
}

TEST(ReductionOrder, DevicesAscendAndKWithinThem) {
  const ReductionOrder order = ReductionOrder::by_device(ExpertPlacement(8, 4));
  EXPECT_EQ(sum(order, {5, 0, 4, 1}), "((3*e0+5*e1)+(2*e5+4*e4))");
  EXPECT_EQ(sum(order, {7}), "((2*e7))");
  EXPECT_EQ(sum(order, {}), "()");
  EXPECT_FALSE(order.is_plain());
}

TEST(ReductionOrder, NodesAscendAndTheirDevicesWithinThem) {
  const std::vector<std::uint32_t> nodes = {1, 0, 1, 0};  // by device
  const ReductionOrder order = ReductionOrder::by_device(ExpertPlacement(8, 4), nodes);
  EXPECT_EQ(sum(order, {5, 0, 2, 7}), "(((4*e2)+(5*e7))+((3*e0)+(2*e5)))");
}

// Each expert is of a device of its own: places are those of the choices.
TEST(ReductionOrder, PairsAsAKernelHasThem) {
  const auto of = [](std::uint32_t top_k) {
    std::vector<std::uint32_t> experts(top_k);
    std::iota(experts.begin(), experts.end(), 0u);
    std::string text = sum(ReductionOrder::in_pairs(ExpertPlacement(16, 16), top_k), experts);
    for (std::uint32_t k = 16; k-- > 0;) {  // each was rounded alone, at its device
      const std::string one = "(" + std::to_string(k + 2) + "*e" + std::to_string(k) + ")";
      const std::size_t at = text.find(one);
      if (at != std::string::npos) text.replace(at, one.size(), std::to_string(k));
    }
    return text;
  };
  EXPECT_EQ(of(1), "(0)");
  EXPECT_EQ(of(2), "(0+1)");
  EXPECT_EQ(of(4), "((0+1)+(2+3))");
  EXPECT_EQ(of(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(of(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  EXPECT_EQ(of(10), "((((0+1)+(2+3))+((4+5)+(6+7)))+(8+9))");
}

TEST(ReductionOrder, PlacesAreThoseOfChoices) {
  const ReductionOrder order = ReductionOrder::in_places(ExpertPlacement(8, 4));
  EXPECT_EQ(sum(order, {6, 0, 7, 2}), "((2*e6+4*e7)+(3*e0)+(5*e2))");
}

// A device's rows take the place of the first one; a place without a partner stays as it is.
TEST(ReductionOrder, PairsLeaveOutWhatIsNotThere) {
  const ReductionOrder order = ReductionOrder::in_pairs(ExpertPlacement(8, 4), 4);
  EXPECT_EQ(sum(order, {6, 0, 7, 2}), "(((2*e6+4*e7)+(3*e0))+(5*e2))");
  EXPECT_EQ(sum(order, {1}), "((2*e1))");
  EXPECT_EQ(sum(order, {}), "()");
}

// Every level rounds to bf16: the sum differs from the one in ascending k, and is what the two rows
// of one device, rounded together, make it.
TEST(ReductionOrder, RoundsWhereADeviceEnds) {
  const Workload workload = make_workload(4, 3, 1, 32, 8);
  const std::vector<std::uint32_t> tokens = {1};
  RoutingTable table(4, 3, tokens);
  const std::vector<std::int32_t> ids = {0, 2, 3};
  const std::vector<float> weights = {0.7f, 0.01f, 0.013f};
  std::copy(ids.begin(), ids.end(), table.ids(0, 0).begin());
  std::copy(weights.begin(), weights.end(), table.weights(0, 0).begin());
  const Experts experts(workload, 1, ExpertKind::kCheapTransform);
  ReferenceScratch scratch;
  std::vector<std::uint16_t> plain(32);
  std::vector<std::uint16_t> tree(32);
  std::vector<std::uint16_t> again(32);
  reference_row(table, experts, 1, 0, 0, 0, Precision::kBf16, scratch, plain);
  reference_row(table, experts, 1, 0, 0, 0, Precision::kBf16, ReductionOrder(), scratch, again);
  EXPECT_EQ(again, plain);
  const ReductionOrder order = ReductionOrder::by_device(ExpertPlacement(4, 2));
  reference_row(table, experts, 1, 0, 0, 0, Precision::kBf16, order, scratch, tree);
  EXPECT_NE(tree, plain);
  // The same by hand: experts 2 and 3 are of one device.
  const auto output = [&](std::uint32_t expert) {
    std::vector<std::uint16_t> row(32);
    experts.apply(expert, std::span<const std::uint16_t>(scratch.input), row);
    return row;
  };
  const std::vector<std::uint16_t> of0 = output(0);
  const std::vector<std::uint16_t> of2 = output(2);
  const std::vector<std::uint16_t> of3 = output(3);
  for (int i = 0; i < 32; ++i) {
    const float first = bf16_to_float(float_to_bf16(weights[0] * bf16_to_float(of0[i])));
    const float pair = weights[1] * bf16_to_float(of2[i]) + weights[2] * bf16_to_float(of3[i]);
    EXPECT_EQ(tree[i], float_to_bf16(first + bf16_to_float(float_to_bf16(pair)))) << i;
  }
}

}  // namespace
}  // namespace orrery::moe
