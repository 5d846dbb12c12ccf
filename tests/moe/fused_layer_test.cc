// Layers of one kernel whose sums have an order: on one device, by slots and by columns, right and
// damaged.
#include "moe/fused_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using devices::Core;
using testing::HasSubstr;

class Slots final : public FusedLayer {
 public:
  Slots(const Problem& problem, const Options& options)
      : FusedLayer(problem, options.flag("slots") ? Sums::kBySlots : Sums::kOwn),
        by_slots_(options.flag("slots")),
        damage_(options.text("damage")) {
    const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
    sent_ = layout_.rows(entries, row_stride());
    computed_ = layout_.rows(entries, row_stride());
    came_back_ = layout_.rows(entries, row_stride());
  }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }

 private:
  emu::Task layer(Core& core, std::uint32_t iteration) override {
    for (std::uint32_t expert = 0; expert < problem_.placement.experts(); ++expert) {
      std::uint32_t index = 0;
      for (const RowTag& row : problem_.arrivals[iteration].rows(expert)) {
        run_row(core, expert, index++, row);
      }
    }
    co_await core.compute(1000);
    for (std::uint32_t token = 0; token < tokens(0, iteration); ++token) {
      if (by_slots_) {
        co_await add_slots(core, token);
      } else {
        add_by_columns(core, token);
      }
    }
  }

  void run_row(Core& core, std::uint32_t expert, std::uint32_t index, const RowTag& row) {
    const std::uint64_t entry = std::uint64_t{row.token} * problem_.top_k() + row.k;
    const fabric::Address computed = computed_ + entry * row_stride();
    encode(core, row.token, sent_ + entry * row_stride());
    apply_experts(core, {{expert, row.source, index, sent_ + entry * row_stride(), computed}});
    std::uint32_t k = row.k;
    if (damage_ == "swapped" && row.token == 2 && k < 2) k = 1 - k;
    const std::uint32_t last = damage_ == "short" ? problem_.hidden() - 1 : problem_.hidden();
    for (const Share columns : {Share{0, 16}, Share{16, 40}, Share{40, last}}) {
      copy_columns(core, back(row.token, k), computed, columns);
    }
  }

  void add_by_columns(Core& core, std::uint32_t token) {
    std::vector<WeightedRow> rows;
    const auto ids = ids_of(core, token);
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] >= 0) rows.push_back({back(token, k), weights_of(core, token)[k]});
    }
    if (damage_ == "descending") std::reverse(rows.begin(), rows.end());
    sum_columns(core, output(token), rows, {0, 24});
    sum_columns(core, output(token), rows, {24, problem_.hidden()});
  }

  fabric::Address back(std::uint32_t token, std::uint32_t k) const {
    if (by_slots_) return slot(token, k);
    return came_back_ + (std::uint64_t{token} * problem_.top_k() + k) * row_stride();
  }

  const bool by_slots_;
  const std::string damage_;
  fabric::Address sent_;
  fabric::Address computed_;
  fabric::Address came_back_;
};

ORRERY_ALGORITHM(test_slots, "test-slots", "one device, for the test of sums in order", Slots,
                 {{"slots", "true", "", {"false", "true"}}, {"damage", "none", "", {}}})

RunConfig run_of(bool slots, const std::string& damage, bool control) {
  Workload workload = make_workload(8, 4, 9);
  if (damage == "none") workload.mutable_gate()->set_masked_share(0.2);
  RunConfig config = small_run("test-slots", 1, 1, workload);
  config.settings = {{"algorithm.slots", slots ? "true" : "false"}, {"algorithm.damage", damage}};
  config.control = control;
  return config;
}

TEST(FusedLayer, SlotsAndColumnsGiveTheReferenceBitForBit) {
  for (const bool control : {false, true}) {
    const Result slots = good_run(run_of(true, "none", control));
    const Result columns = good_run(run_of(false, "none", control));
    EXPECT_EQ(slots.output_digest(), columns.output_digest());
    EXPECT_TRUE(passed(slots));
  }
  expect_clean(run_of(true, "none", false));
}

TEST(FusedLayer, WrongSumsAreSeen) {
  for (const bool slots : {true, false}) {
    for (const bool control : {true, false}) {
      const RunOutcome outcome = run_alone(run_of(slots, "swapped", control));
      EXPECT_THAT(failures_of(outcome.result),
                  HasSubstr("output of token 2 differs from the dense reference"));
    }
    EXPECT_FALSE(run_alone(run_of(slots, "short", false)).result.verified());
  }
}

// Identities tell any order from any other, where rounding to bf16 hides most.
TEST(FusedLayer, SumsInAnotherOrderAreSeen) {
  EXPECT_FALSE(run_alone(run_of(false, "descending", true)).result.verified());
}

}  // namespace
}  // namespace orrery::moe
