#include "moe/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "emu/digest.h"
#include "moe/bf16.h"
#include "moe/gate.h"
#include "moe/reduce.h"
#include "moe/rows.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

/// The definition, element by element.
std::vector<std::uint16_t> by_definition(const RoutingTable& table, const Experts& experts,
                                         std::uint32_t device, std::uint32_t token,
                                         Precision precision) {
  std::vector<std::uint16_t> x(experts.hidden()), y(experts.hidden()), out(experts.hidden());
  std::vector<std::int8_t> q(experts.hidden());
  std::vector<float> sum(experts.hidden(), 0.0f);
  input_row(9, 2, device, token, x);
  const float scale = quantise_int8(x, q);
  for (std::uint32_t k = 0; k < table.top_k(); ++k) {
    const std::int32_t id = table.ids(device, token)[k];
    if (id == -1) continue;
    if (precision == Precision::kInt8) {
      experts.apply(static_cast<std::uint32_t>(id), q, scale, y);
    } else {
      experts.apply(static_cast<std::uint32_t>(id), x, y);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const volatile float product = table.weights(device, token)[k] * bf16_to_float(y[i]);
      sum[i] = sum[i] + product;
    }
  }
  std::ranges::transform(sum, out.begin(), float_to_bf16);
  return out;
}

TEST(Reference, FollowsItsDefinitionWithOneScratchForAll) {
  for (const std::uint32_t hidden : {1u, 64u, 481u}) {
    Workload workload = make_workload(8, 3, 20, hidden);
    workload.mutable_gate()->set_masked_share(0.3);
    const RoutingTable table = route(workload, 3, 9, 2);
    ReferenceScratch scratch;
    for (const ExpertKind kind : {ExpertKind::kSwiGlu, ExpertKind::kCheapTransform}) {
      const Experts experts(workload, 9, kind);
      for (const Precision precision : {Precision::kInt8, Precision::kBf16}) {
        for (std::uint32_t device = 0; device < 3; ++device) {
          for (std::uint32_t token = 0; token < 20; ++token) {
            std::vector<std::uint16_t> out(hidden, 0xffff);
            reference_row(table, experts, 9, 2, device, token, precision, scratch, out);
            ASSERT_EQ(out, by_definition(table, experts, device, token, precision));
          }
        }
      }
    }
  }
}

// Whatever the order, the sum is within; what is wrong is not.
TEST(Reference, BoundsHoldSumsInAnyOrderAndNothingElse) {
  constexpr std::uint32_t kHidden = 200;
  for (const std::uint32_t top_k : {1u, 2u, 8u}) {
    const Workload workload = make_workload(16, top_k, 6, kHidden);
    const RoutingTable table = route(workload, 1, 9, 2);
    const Experts experts(workload, 9, ExpertKind::kCheapTransform);
    ReferenceScratch scratch;
    for (std::uint32_t token = 0; token < 6; ++token) {
      std::vector<std::uint16_t> least(kHidden), most(kHidden), x(kHidden), y(kHidden);
      reference_bounds(table, experts, 9, 2, 0, token, Precision::kBf16, scratch, least, most);
      input_row(9, 2, 0, token, x);
      std::vector<std::uint32_t> order(top_k);
      for (std::uint32_t k = 0; k < top_k; ++k) order[k] = k;
      std::uint32_t wrong_outside = 0;
      for (int permutation = 0; permutation < 200; ++permutation) {
        std::vector<float> sum(kHidden, 0.0f);
        for (const std::uint32_t k : order) {
          experts.apply(static_cast<std::uint32_t>(table.ids(0, token)[k]), x, y);
          accumulate(sum, y, table.weights(0, token)[k]);
        }
        for (std::uint32_t i = 0; i < kHidden; ++i) {
          const float value = bf16_to_float(float_to_bf16(sum[i]));
          ASSERT_LE(bf16_to_float(least[i]), value);
          ASSERT_GE(bf16_to_float(most[i]), value);
          const float wrong = bf16_to_float(float_to_bf16(sum[i] * 1.02f));
          if (wrong < bf16_to_float(least[i]) || wrong > bf16_to_float(most[i])) ++wrong_outside;
        }
        if (!std::next_permutation(order.begin(), order.end())) break;
      }
      // All but rows of zeros, and sums in which nearly all is cancelled.
      if (x[0] != 0 && x[1] != x[0]) {
        EXPECT_GT(wrong_outside, kHidden / 2);
      }
      if (top_k == 1) {
        EXPECT_EQ(least, most);
      }
    }
  }
}

TEST(Reference, AllMaskedGivesZeros) {
  Workload workload = make_workload(8, 2, 1);
  workload.mutable_gate()->set_masked_share(1);
  const RoutingTable table = route(workload, 1, 1, 0);
  const Experts experts(workload, 1, ExpertKind::kSwiGlu);
  ReferenceScratch scratch;
  std::vector<std::uint16_t> out(64, 0xffff);
  reference_row(table, experts, 1, 0, 0, 0, Precision::kInt8, scratch, out);
  EXPECT_EQ(out, std::vector<std::uint16_t>(64, 0));
}

TEST(Reference, ThePublishedDigestsStay) {
  // The same on any host, compiler and vector width. A change here changes the output digest of
  // every run.
  Workload workload = make_workload(32, 4, 50, 200, 100);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_masked_share(0.1);
  const RoutingTable table = route(workload, 2, 42, 1);
  const auto digest_of = [&](ExpertKind kind, Precision precision) {
    const Experts experts(workload, 42, kind);
    ReferenceScratch scratch;
    std::vector<std::uint16_t> out(200);
    emu::RunningDigest digest;
    for (std::uint32_t token = 0; token < 50; ++token) {
      reference_row(table, experts, 42, 1, 1, token, precision, scratch, out);
      digest.add(emu::digest_bytes(std::as_bytes(std::span<const std::uint16_t>(out))));
    }
    return emu::to_hex(digest.value());
  };
  EXPECT_EQ(digest_of(ExpertKind::kSwiGlu, Precision::kInt8), "0bb23400c3e8ece3");
  EXPECT_EQ(digest_of(ExpertKind::kSwiGlu, Precision::kBf16), "6e7e5267d1e4f961");
  EXPECT_EQ(digest_of(ExpertKind::kCheapTransform, Precision::kInt8), "d631aefbddd6cd3d");
  EXPECT_EQ(digest_of(ExpertKind::kCheapTransform, Precision::kBf16), "48d0d3a5bcef8acf");
}

}  // namespace
}  // namespace orrery::moe
