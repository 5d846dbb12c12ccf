#include "moe/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/expert_popularity.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

void expect_wellformed(const RoutingTable& table, const Workload& workload) {
  for (std::uint32_t device = 0; device < table.devices(); ++device) {
    for (std::uint32_t token = 0; token < table.tokens(device); ++token) {
      std::set<std::int32_t> seen;
      float sum = 0;
      for (std::uint32_t k = 0; k < workload.top_k(); ++k) {
        const std::int32_t id = table.ids(device, token)[k];
        ASSERT_GE(id, -1);
        ASSERT_LT(id, static_cast<std::int32_t>(workload.experts()));
        ASSERT_TRUE(id < 0 || seen.insert(id).second) << "expert twice in a token";
        ASSERT_GT(table.weights(device, token)[k], 0.0f);
        sum += table.weights(device, token)[k];
      }
      ASSERT_NEAR(sum, 1.0f, 1e-6f);
      ASSERT_TRUE(std::ranges::is_sorted(table.weights(device, token), std::greater<>()));
    }
  }
}

/// Share of all rows that the `n` most loaded experts get.
double top_share(const RoutingTable& table, std::size_t n) {
  std::vector<std::uint64_t> counts = table.counts();
  std::ranges::sort(counts, std::greater<>());
  const auto sum = [](auto begin, auto end) {
    return static_cast<double>(std::accumulate(begin, end, std::uint64_t{0}));
  };
  return sum(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(n)) /
         sum(counts.begin(), counts.end());
}

TEST(Gate, UniformIsUniform) {
  const Workload workload = make_workload(60, 4, 1000);
  const RoutingTable table = route(workload, 20, 7, 0);
  expect_wellformed(table, workload);
  const double mean = 20.0 * 1000 * 4 / 60;
  double chi_square = 0;
  for (const std::uint64_t count : table.counts()) {
    const double off = static_cast<double>(count) - mean;
    chi_square += off * off / mean;
  }
  EXPECT_LT(chi_square, 110);  // 59 degrees of freedom: beyond this one time in 20,000
}

TEST(Gate, UniformChoosesEveryPosition) {
  // With k = E a token names all experts, and each expert is first about equally often.
  const Workload workload = make_workload(5, 5, 10000);
  const RoutingTable table = route(workload, 1, 3, 0);
  expect_wellformed(table, workload);
  std::vector<int> first(5);
  for (std::uint32_t token = 0; token < 10000; ++token) {
    ++first[static_cast<std::size_t>(table.ids(0, token)[0])];
  }
  for (const int count : first) EXPECT_NEAR(count, 2000, 200);
}

TEST(Gate, BalancedGoesRoundDevicesAndTheirExperts) {
  Workload workload = make_workload(16, 2, 8);
  workload.mutable_gate()->set_kind(Gate::BALANCED);
  const RoutingTable table = route(workload, 4, 1, 0);  // experts 0 to 3 on device 0, and so on
  const std::vector<std::vector<std::int32_t>> wanted{{0, 4}, {8, 12},  {1, 5}, {9, 13},
                                                      {2, 6}, {10, 14}, {3, 7}, {11, 15}};
  for (std::uint32_t device = 0; device < 4; ++device) {
    for (std::uint32_t token = 0; token < 8; ++token) {
      EXPECT_TRUE(std::ranges::equal(table.ids(device, token), wanted[token])) << token;
    }
  }
  EXPECT_EQ(table.counts(), std::vector<std::uint64_t>(16, 4));
  // More choices than devices: all of them each time, and the next of their experts with each
  // token.
  workload = make_workload(8, 4, 2);
  workload.mutable_gate()->set_kind(Gate::BALANCED);
  const RoutingTable narrow = route(workload, 2, 1, 0);
  EXPECT_TRUE(std::ranges::equal(narrow.ids(0, 0), std::vector<std::int32_t>{0, 4, 1, 5}));
  EXPECT_TRUE(std::ranges::equal(narrow.ids(1, 1), std::vector<std::int32_t>{1, 5, 2, 6}));
}

TEST(Gate, BalancedIsWellFormedInEveryShape) {
  for (const std::uint32_t experts : {5u, 8u, 13u, 256u}) {
    for (const std::uint32_t devices : {1u, 2u, 3u, 8u, 24u}) {
      for (const std::uint32_t top_k : {1u, 2u, 5u}) {
        Workload workload = make_workload(experts, top_k, 40);
        workload.mutable_gate()->set_kind(Gate::BALANCED);
        const RoutingTable table = route(workload, devices, 3, 1);
        expect_wellformed(table, workload);
        EXPECT_TRUE(std::ranges::equal(table.ids(0, 7), table.ids(devices - 1, 7)));
        EXPECT_TRUE(std::ranges::equal(route(workload, devices, 4, 2).ids(0, 9), table.ids(0, 9)));
      }
    }
  }
}

TEST(Gate, ZipfTenHottestOf128TakeEightyTwoPercent) {
  Workload workload = make_workload(128, 8, 1000);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_zipf_s(1.5);
  workload.mutable_gate()->set_allow_duplicates(true);
  EXPECT_NEAR(top_share(route(workload, 50, 1, 0), 10), 0.82, 0.01);

  // The first choice of a token without replacement has the same distribution.
  workload.mutable_gate()->set_allow_duplicates(false);
  workload.set_top_k(1);
  EXPECT_NEAR(top_share(route(workload, 50, 1, 0), 10), 0.82, 0.01);

  // Eight distinct experts a token are flatter, but well formed.
  workload.set_top_k(8);
  const RoutingTable table = route(workload, 50, 1, 0);
  expect_wellformed(table, workload);
  EXPECT_LT(top_share(table, 10), 0.75);
  EXPECT_GT(top_share(table, 10), 0.4);
}

TEST(Gate, ZipfFrequenciesFollowRanks) {
  Workload workload = make_workload(16, 1, 10000);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_zipf_s(1);
  std::vector<std::uint64_t> counts = route(workload, 100, 5, 0).counts();
  std::ranges::sort(counts, std::greater<>());
  double harmonic = 0;
  for (int rank = 1; rank <= 16; ++rank) harmonic += 1.0 / rank;
  for (int rank = 1; rank <= 16; ++rank) {
    const double expected = 1e6 / rank / harmonic;
    EXPECT_NEAR(static_cast<double>(counts[static_cast<std::size_t>(rank - 1)]), expected,
                0.03 * expected);
  }
}

TEST(Gate, ZipfZeroIsUniform) {
  Workload workload = make_workload(64, 2, 1000);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_zipf_s(0);
  EXPECT_NEAR(top_share(route(workload, 50, 1, 0), 10), 10.0 / 64, 0.01);
}

TEST(Gate, ExtremeZipfStillNamesDistinctExperts) {
  Workload workload = make_workload(64, 64, 50);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_zipf_s(10);
  expect_wellformed(route(workload, 2, 1, 0), workload);
}

TEST(Gate, HotExpertsAreHotByTheirFactor) {
  Workload workload = make_workload(128, 1, 10000);
  workload.mutable_gate()->set_kind(Gate::HOT_EXPERTS);
  workload.mutable_gate()->set_hot_experts(8);
  workload.mutable_gate()->set_hot_factor(10);
  EXPECT_NEAR(top_share(route(workload, 50, 9, 0), 8), 80.0 / 200, 0.005);
}

TEST(Gate, PopularityDependsOnTheSeedNotOnTheIteration) {
  Workload workload = make_workload(128, 1, 1000);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  workload.mutable_gate()->set_zipf_s(2);
  const auto hottest = [&](std::uint64_t seed, std::uint32_t iteration) {
    const auto counts = route(workload, 4, seed, iteration).counts();
    return std::ranges::max_element(counts) - counts.begin();
  };
  EXPECT_EQ(hottest(1, 0), hottest(1, 5));
  EXPECT_FALSE(hottest(1, 0) == hottest(2, 0) && hottest(2, 0) == hottest(3, 0));
}

TEST(Gate, PowersMatchLibmClosely) {
  for (const double s : {0.0, 0.1, 0.5, 1.0, 1.5, 3.0, 10.0}) {
    for (const std::uint32_t rank : {1u, 2u, 3u, 7u, 10u, 128u, 1000u, 65536u}) {
      const double exact = std::pow(rank, -s);
      EXPECT_NEAR(zipf_weight(rank, s) / exact, 1.0, 1e-12) << rank << "^-" << s;
    }
  }
}

TEST(Gate, IsDeterministicWhateverWasRoutedBefore) {
  Workload workload = make_workload(256, 8, 32);
  workload.mutable_gate()->set_kind(Gate::ZIPF);
  const RoutingTable second = route(workload, 8, 11, 2);
  const RoutingTable first = route(workload, 8, 11, 1);
  EXPECT_EQ(first, route(workload, 8, 11, 1));
  EXPECT_EQ(second, route(workload, 8, 11, 2));
  EXPECT_NE(first, second);
  EXPECT_NE(first, route(workload, 8, 12, 1));
}

TEST(Gate, TokensOfADeviceDependOnThatDeviceAlone) {
  Workload workload = make_workload(32, 4, 16);
  const RoutingTable even = route(workload, 4, 1, 0);
  for (const std::uint32_t tokens : {3u, 0u, 16u, 5u}) workload.add_tokens_per_device(tokens);
  const RoutingTable uneven = route(workload, 4, 1, 0);
  EXPECT_EQ(uneven.tokens(1), 0u);
  EXPECT_EQ(uneven.total_tokens(), 24u);
  EXPECT_EQ(uneven.max_tokens(), 16u);
  for (std::uint32_t device = 0; device < 4; ++device) {
    for (std::uint32_t token = 0; token < uneven.tokens(device); ++token) {
      EXPECT_TRUE(std::ranges::equal(uneven.ids(device, token), even.ids(device, token)));
      EXPECT_TRUE(std::ranges::equal(uneven.weights(device, token), even.weights(device, token)));
    }
  }
}

TEST(Gate, ThePublishedNumbersOfOneTokenStay) {
  // A change here changes every result of every run: digests, times, recorded studies.
  const Workload workload = make_workload(256, 8, 2);
  const RoutingTable table = route(workload, 2, 42, 3);
  const std::vector<std::int32_t> ids(table.ids(1, 1).begin(), table.ids(1, 1).end());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{88, 188, 32, 16, 33, 30, 89, 252}));
}

TEST(Gate, GroupsRestrictATokenToTopGroups) {
  Workload workload = make_workload(256, 8, 500);
  workload.set_expert_groups(8);
  workload.set_top_groups(4);
  for (const Gate::Kind kind : {Gate::UNIFORM, Gate::ZIPF, Gate::HOT_EXPERTS}) {
    workload.mutable_gate()->set_kind(kind);
    const RoutingTable table = route(workload, 4, 1, 0);
    expect_wellformed(table, workload);
    std::map<std::size_t, int> sizes;
    std::set<std::int32_t> all;
    for (std::uint32_t device = 0; device < 4; ++device) {
      for (std::uint32_t token = 0; token < 500; ++token) {
        std::set<std::int32_t> groups;
        for (const std::int32_t id : table.ids(device, token)) groups.insert(id / 32);
        all.insert(groups.begin(), groups.end());
        ++sizes[groups.size()];
      }
    }
    EXPECT_LE(sizes.rbegin()->first, 4u);
    EXPECT_EQ(all.size(), 8u);
  }
}

TEST(Gate, OneGroupOfExactlyKExperts) {
  Workload workload = make_workload(32, 8, 100);
  workload.set_expert_groups(4);
  workload.set_top_groups(1);
  const RoutingTable table = route(workload, 1, 1, 0);
  expect_wellformed(table, workload);
  for (std::uint32_t token = 0; token < 100; ++token) {
    const auto ids = table.ids(0, token);
    EXPECT_EQ(*std::ranges::min_element(ids) / 8, *std::ranges::max_element(ids) / 8);
  }
}

TEST(Gate, GroupsAllChosenEqualNoGroups) {
  Workload workload = make_workload(32, 4, 50);
  const RoutingTable without = route(workload, 2, 1, 0);
  workload.set_expert_groups(4);
  workload.set_top_groups(4);
  EXPECT_EQ(route(workload, 2, 1, 0), without);
}

TEST(Gate, MaskedShareMasksThatShareAndNothingElse) {
  Workload workload = make_workload(64, 8, 1000);
  const RoutingTable whole = route(workload, 10, 1, 0);
  workload.mutable_gate()->set_masked_share(0.25);
  const RoutingTable masked = route(workload, 10, 1, 0);
  expect_wellformed(masked, workload);
  EXPECT_NEAR(static_cast<double>(masked.total_entries()), 60000, 1000);
  masked.for_each_entry(3,
                        [&](std::uint32_t token, std::uint32_t k, std::uint32_t expert, float w) {
                          EXPECT_EQ(static_cast<std::int32_t>(expert), whole.ids(3, token)[k]);
                          EXPECT_EQ(w, whole.weights(3, token)[k]);
                        });
  workload.mutable_gate()->set_masked_share(1);
  EXPECT_EQ(route(workload, 10, 1, 0).total_entries(), 0u);
}

TEST(Gate, DuplicatesOnlyWhenAllowed) {
  Workload workload = make_workload(4, 8, 100);
  EXPECT_THROW(route(workload, 1, 1, 0), emu::ConfigError);
  workload.mutable_gate()->set_allow_duplicates(true);
  const RoutingTable table = route(workload, 1, 1, 0);
  EXPECT_EQ(table.total_entries(), 800u);
}

TEST(Gate, CountsAddUp) {
  const Workload workload = make_workload(24, 3, 17);
  const RoutingTable table = route(workload, 5, 1, 0);
  std::vector<std::uint64_t> sum(24);
  for (std::uint32_t device = 0; device < 5; ++device) {
    const auto counts = table.counts(device);
    for (std::size_t expert = 0; expert < 24; ++expert) sum[expert] += counts[expert];
  }
  EXPECT_EQ(sum, table.counts());
  EXPECT_EQ(std::accumulate(sum.begin(), sum.end(), std::uint64_t{0}), 5u * 17 * 3);
}

TEST(Gate, ZeroTokensAndOneExpertWork) {
  EXPECT_EQ(route(make_workload(8, 2, 0), 3, 1, 0).total_tokens(), 0u);
  const RoutingTable table = route(make_workload(1, 1, 3), 2, 1, 0);
  EXPECT_EQ(table.counts(), std::vector<std::uint64_t>{6});
}

struct Refused {
  std::string field;
  std::function<void(Workload&)> change;
};

TEST(Gate, WorkloadsThatDoNotFitAreRefused) {
  const std::vector<Refused> cases = {
      {"top_k", [](Workload& w) { w.set_top_k(17); }},
      {"top_k", [](Workload& w) { w.set_top_k(0); }},
      {"top_k", [](Workload& w) { w.set_top_k(65), w.set_experts(100); }},
      {"experts", [](Workload& w) { w.set_experts(0); }},
      {"hidden", [](Workload& w) { w.set_hidden(0); }},
      {"expert_groups", [](Workload& w) { w.set_expert_groups(5), w.set_top_groups(4); }},
      {"top_groups", [](Workload& w) { w.set_expert_groups(4); }},
      {"top_groups", [](Workload& w) { w.set_expert_groups(4), w.set_top_groups(5); }},
      {"top_groups", [](Workload& w) { w.set_expert_groups(16), w.set_top_groups(3); }},
      {"top_groups", [](Workload& w) { w.set_top_groups(3); }},
      {"tokens_per_device", [](Workload& w) { w.add_tokens_per_device(3); }},
      {"tokens", [](Workload& w) { w.set_max_tokens(7); }},
      {"tokens_per_device.1",
       [](Workload& w) {
         w.add_tokens_per_device(1), w.add_tokens_per_device(9), w.set_max_tokens(8);
       }},
      {"gate.masked_share", [](Workload& w) { w.mutable_gate()->set_masked_share(1.5); }},
      {"gate.masked_share", [](Workload& w) { w.mutable_gate()->set_masked_share(NAN); }},
      {"gate.zipf_s",
       [](Workload& w) {
         w.mutable_gate()->set_kind(Gate::ZIPF), w.mutable_gate()->set_zipf_s(-1);
       }},
      {"gate.hot_experts",
       [](Workload& w) {
         w.mutable_gate()->set_kind(Gate::HOT_EXPERTS), w.mutable_gate()->set_hot_experts(17);
       }},
      {"gate.hot_factor",
       [](Workload& w) {
         w.mutable_gate()->set_kind(Gate::HOT_EXPERTS), w.mutable_gate()->set_hot_factor(NAN);
       }},
      {"gate.trace_file", [](Workload& w) { w.mutable_gate()->set_kind(Gate::TRACE); }},
      {"gate.kind",
       [](Workload& w) {
         w.mutable_gate()->set_kind(Gate::TRACE), w.mutable_gate()->set_trace_file("x");
       }},
      {"tokens", [](Workload& w) { w.set_tokens(4000000000u); }},
  };
  for (const Refused& refused : cases) {
    Workload workload = make_workload(16, 4, 8);
    refused.change(workload);
    try {
      route(workload, 2, 1, 0);
      ADD_FAILURE() << "accepted: " << workload.ShortDebugString();
    } catch (const emu::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("test: " + refused.field + ": "), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace orrery::moe
