// The checks themselves, sabotaged: a layer on one device that does everything right, then damages
// one thing in device memory. Verification has to see each of them (R10).
#include "moe/moe_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "moe/reduce.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using devices::Core;
using testing::HasSubstr;

const std::vector<std::string> kDispatchDamage = {"payload-first", "payload-last", "scale",
                                                  "tag-token",     "tag-k",        "tag-source",
                                                  "count",         "swapped-rows", "missing-row"};
const std::vector<std::string> kCombineDamage = {"output-first",    "output-last",
                                                 "output-sign",     "missing-output",
                                                 "swapped-outputs", "forgotten-expert"};

class Local final : public MoeLayer {
 public:
  Local(const Problem& problem, const Options& options)
      : MoeLayer(problem, options.text("quantise") == "int8" ? Precision::kInt8 : Precision::kBf16,
                 options.text("order") == "sorted" ? RowOrder::kSorted : RowOrder::kAsTheyCome),
        damage_(options.text("damage")) {}
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }

 private:
  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    fabric::Memory& memory = core.memory();
    std::uint64_t row = 0;
    for (std::uint32_t expert = 0; expert < problem_.placement.experts(); ++expert) {
      const auto sent = problem_.arrivals[iteration].rows(expert);
      std::vector<RowTag> rows(sent.begin(), sent.end());
      if (order_ == RowOrder::kAsTheyCome) {  // the last one first
        row = first_row(expert);
        std::reverse(rows.begin(), rows.end());
      }
      memory.store(expert_rows(expert), static_cast<std::uint32_t>(rows.size()));
      rows_of_.resize(std::max<std::size_t>(rows_of_.size(), expert + 1));
      rows_of_[expert] = {row, rows.size()};
      for (const RowTag& each : rows) {
        const float value =
            encode_row(memory.array<std::uint16_t>(input(each.token), problem_.hidden()),
                       precision_, memory.view(expanded(row), payload_bytes()));
        memory.store(scale(row), value);
        memory.store(tag(row), each);
        ++row;
      }
    }
    if (core.rank() == 0 && iteration == 1) damage_rows(memory);
    co_await core.compute(1000);
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    fabric::Memory& memory = core.memory();
    const std::uint32_t count = tokens(core.rank(), iteration);
    std::vector<std::vector<std::uint64_t>> row_of(count,
                                                   std::vector<std::uint64_t>(problem_.top_k()));
    for (const auto& [first, size] : rows_of_) {
      for (std::uint64_t row = first; row < first + size; ++row) {
        const auto each = memory.load<RowTag>(tag(row));
        if (each.token < count && each.k < problem_.top_k()) row_of[each.token][each.k] = row;
      }
    }
    for (std::uint32_t token = 0; token < count; ++token) {
      std::vector<float> sum(problem_.hidden(), 0.0f);
      const auto weights = problem_.tables[iteration].weights(0, token);
      for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
        if (damage_ == "forgotten-expert" && token == 2 && k == 1) continue;
        const auto output_row = std::as_const(memory).array<std::uint16_t>(
            expert_output(row_of[token][k]), problem_.hidden());
        accumulate(sum, output_row, weights[k]);
      }
      round_to_bf16(sum, memory.array<std::uint16_t>(output(token), problem_.hidden()));
    }
    if (iteration == 1) damage_outputs(memory);
    co_await core.compute(1000);
  }

  static void flip(fabric::Memory& memory, fabric::Address address, std::uint8_t bits) {
    memory.store(address, static_cast<std::uint8_t>(memory.load<std::uint8_t>(address) ^ bits));
  }
  static void swap(fabric::Memory& memory, fabric::Address a, fabric::Address b,
                   std::uint64_t bytes) {
    std::swap_ranges(memory.view(a, bytes).begin(), memory.view(a, bytes).end(),
                     memory.view(b, bytes).begin());
  }

  void damage_rows(fabric::Memory& memory) const {
    constexpr std::uint64_t kRow = 3;
    if (damage_ == "payload-first") flip(memory, expanded(kRow), 1);
    if (damage_ == "payload-last") flip(memory, expanded(kRow) + payload_bytes() - 1, 0x80);
    if (damage_ == "scale") flip(memory, scale(kRow), 1);
    if (damage_ == "tag-source") flip(memory, tag(kRow), 1);
    if (damage_ == "tag-token") flip(memory, tag(kRow) + 4, 1);
    if (damage_ == "tag-k") flip(memory, tag(kRow) + 8, 1);
    if (damage_ == "count")
      memory.store(expert_rows(0), memory.load<std::uint32_t>(expert_rows(0)) - 1);
    if (damage_ == "swapped-rows")
      swap(memory, expanded(kRow), expanded(kRow + 1), payload_bytes());
    if (damage_ == "missing-row")
      std::ranges::fill(memory.view(expanded(kRow), payload_bytes()), std::byte{0});
  }
  void damage_outputs(fabric::Memory& memory) const {
    if (damage_ == "output-first") flip(memory, output(2), 1);
    if (damage_ == "output-last") flip(memory, output(2) + output_row_bytes() - 2, 1);
    if (damage_ == "output-sign") flip(memory, output(2) + 1, 0x80);
    if (damage_ == "missing-output")
      std::ranges::fill(memory.view(output(2), output_row_bytes()), std::byte{0});
    if (damage_ == "swapped-outputs") swap(memory, output(2), output(3), output_row_bytes());
  }

  const std::string damage_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rows_of_;  // by expert: first and how many
};

ORRERY_ALGORITHM(test_local, "test-local", "one device, for the test of the checks", Local,
                 {{"quantise", "int8", "", {"int8", "bf16"}},
                  {"damage", "none", "", {}},
                  {"order", "sorted", "", {}}})

RunConfig damaged(const std::string& damage, const std::string& quantise = "int8",
                  const std::string& order = "sorted") {
  RunConfig config = small_run("test-local", 1, 1, make_workload(4, 3, 9, 50));
  config.settings = {
      {"algorithm.damage", damage}, {"algorithm.quantise", quantise}, {"algorithm.order", order}};
  return config;
}

TEST(MoeLayer, UndamagedIsVerified) {
  for (const char* quantise : {"int8", "bf16"}) {
    const Result result = good_run(damaged("none", quantise));
    EXPECT_EQ(result.failures_size(), 0);
  }
}

// In what order the rows of an expert came changes nothing of what is said about them.
TEST(MoeLayer, RowsMayLieAsTheyCame) {
  const Result sorted = good_run(damaged("none"));
  const Result reversed = good_run(damaged("none", "int8", "as-they-come"));
  EXPECT_EQ(reversed.output_digest(), sorted.output_digest());
  EXPECT_EQ(reversed.digest(), sorted.digest());
}

class DamagedRows : public testing::TestWithParam<std::string> {};

TEST_P(DamagedRows, AreSeenAfterDispatch) {
  for (const std::string order : {"sorted", "as-they-come"}) {
    for (const std::string quantise : {"int8", "bf16"}) {
      if (GetParam() == "scale" && quantise == "bf16") continue;  // it has none
      const RunOutcome outcome = run_alone(damaged(GetParam(), quantise, order));
      EXPECT_EQ(outcome.hang, "");
      EXPECT_FALSE(outcome.result.verified()) << quantise << " " << order;
      EXPECT_THAT(failures_of(outcome.result), HasSubstr("device 0 dispatch iteration 1: expert "));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedRows, testing::ValuesIn(kDispatchDamage),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class DamagedOutputs : public testing::TestWithParam<std::string> {};

TEST_P(DamagedOutputs, AreSeenAfterCombine) {
  const RunOutcome outcome = run_alone(damaged(GetParam()));
  EXPECT_EQ(outcome.hang, "");
  EXPECT_FALSE(outcome.result.verified());
  EXPECT_THAT(failures_of(outcome.result), HasSubstr("device 0 combine iteration "));
  EXPECT_THAT(failures_of(outcome.result), testing::Not(HasSubstr("dispatch")));
  EXPECT_NE(outcome.result.output_digest(), good_run(damaged("none")).output_digest());
}
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedOutputs, testing::ValuesIn(kCombineDamage),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace orrery::moe
