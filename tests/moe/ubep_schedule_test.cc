// UBEP's schedules and mapper as pure functions: everything is sent once, shares are even, and the
// hop-aware one is as good as an exact solver's, give or take an entry.
#include "moe/algorithms/ubep_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "emu/random.h"
#include "moe/algorithms/ubep_count_cores.h"

namespace orrery::moe::ubep {
namespace {

constexpr Schedule kAll[] = {Schedule::kExpertMajor, Schedule::kEntryCyclic, Schedule::kRandom,
                             Schedule::kBalanced, Schedule::kHopAware};

// A batch with the vectors that it refers to.
struct Case {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint8_t> hop_class;
  std::uint32_t first_expert = 0;

  Batch batch() const { return {ids, counts, hop_class, first_expert, 7}; }
  std::uint32_t valid() const {
    return static_cast<std::uint32_t>(
        std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; }));
  }
};

Case random_case(emu::RandomStream& random, std::uint64_t most_entries,
                 std::uint64_t most_experts) {
  Case made;
  const std::uint64_t experts = 1 + random.below(most_experts);
  const std::uint64_t popular = 1 + random.below(experts);  // the others get nothing
  made.counts.assign(experts, 0);
  for (std::uint64_t e = 0; e < experts; ++e) {
    made.hop_class.push_back(static_cast<std::uint8_t>(random.below(kHopClasses)));
  }
  made.first_expert = static_cast<std::uint32_t>(random.below(experts));
  const std::uint64_t entries = random.below(most_entries + 1);
  const std::uint64_t offset = random.below(experts);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const bool masked = random.below(8) == 0;
    const auto id = static_cast<std::int32_t>((offset + random.below(popular)) % experts);
    made.ids.push_back(masked ? -1 : id);
    if (!masked) ++made.counts[static_cast<std::size_t>(id)];
  }
  return made;
}

TEST(UbepSchedule, EverythingIsSentOnceToItsPlace) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    emu::RandomStream random(seed, 0, "schedule test");
    const Case made = random_case(random, 60, 20);
    const auto cores = static_cast<std::uint32_t>(1 + random.below(12));
    for (const Schedule schedule : kAll) {
      std::set<std::uint32_t> entries;
      std::map<std::int32_t, std::set<std::uint32_t>> places;
      for (std::uint32_t core = 0; core < cores; ++core) {
        for (const Send& send : sends(schedule, made.batch(), cores, core)) {
          ASSERT_TRUE(entries.insert(send.entry).second) << "seed " << seed;
          const std::int32_t id = made.ids[send.entry];
          ASSERT_GE(id, 0);
          ASSERT_TRUE(places[id].insert(send.place).second) << "seed " << seed;
          // Its place is the number of earlier entries for the same expert.
          ASSERT_EQ(send.place, std::count(made.ids.begin(), made.ids.begin() + send.entry, id));
        }
      }
      ASSERT_EQ(entries.size(), made.valid()) << "seed " << seed;
    }
  }
}

TEST(UbepSchedule, SharesAreEven) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    emu::RandomStream random(seed, 1, "schedule test");
    const Case made = random_case(random, 200, 40);
    const auto cores = static_cast<std::uint32_t>(1 + random.below(16));
    std::array<std::uint32_t, kHopClasses> in_class{};
    for (std::size_t e = 0; e < made.counts.size(); ++e) {
      in_class[made.hop_class[e]] += made.counts[e];
    }
    for (std::uint32_t core = 0; core < cores; ++core) {
      const auto even = [cores](std::uint32_t total, std::size_t mine) {
        return mine == total / cores || mine == (total + cores - 1) / cores;
      };
      const auto balanced = sends(Schedule::kBalanced, made.batch(), cores, core);
      ASSERT_TRUE(even(made.valid(), balanced.size())) << "seed " << seed;
      const auto hop_aware = sends(Schedule::kHopAware, made.batch(), cores, core);
      ASSERT_TRUE(even(made.valid(), hop_aware.size())) << "seed " << seed;
      std::array<std::uint32_t, kHopClasses> mine{};
      std::uint8_t last = kHopClasses;
      for (const Send& send : hop_aware) {
        const std::uint8_t hop = made.hop_class[static_cast<std::size_t>(made.ids[send.entry])];
        ASSERT_LE(hop, last) << "far classes come first";
        last = hop;
        ++mine[hop];
      }
      for (std::uint32_t hop = 0; hop < kHopClasses; ++hop) {
        ASSERT_TRUE(even(in_class[hop], mine[hop])) << "seed " << seed << ", class " << hop;
      }
    }
  }
}

// The least possible load of the slowest of `cores`, each of which gets floor or ceil of an even
// share of all entries: by trying every way to deal `left` entries of each class (branch and
// bound).
class Exact {
 public:
  Exact(std::array<std::uint32_t, kHopClasses> left, std::array<std::uint64_t, kHopClasses> cost,
        std::uint32_t cores)
      : left_(left), cost_(cost), cores_(cores) {
    for (const std::uint32_t each : left) total_ += each;
  }
  std::uint64_t slowest() {
    deal(0, 0, total_, std::numeric_limits<std::uint64_t>::max());
    return best_;
  }

 private:
  // Cores in order of falling load: `bound` is the load of the one before.
  void deal(std::uint32_t core, std::uint64_t slowest, std::uint32_t remaining,
            std::uint64_t bound) {
    if (slowest >= best_) return;
    if (core == cores_) {
      if (remaining == 0) best_ = slowest;
      return;
    }
    const std::uint32_t least = total_ / cores_;
    const std::uint32_t most = (total_ + cores_ - 1) / cores_;
    for (std::uint32_t size = most; size + 1 > least; --size) {
      for (std::uint32_t far = 0; far <= std::min(size, left_[2]); ++far) {
        for (std::uint32_t near = 0; near <= std::min(size - far, left_[1]); ++near) {
          const std::uint32_t own = size - far - near;
          if (own > left_[0]) continue;
          const std::uint64_t load = far * cost_[2] + near * cost_[1] + own * cost_[0];
          if (load > bound) continue;
          left_[2] -= far;
          left_[1] -= near;
          left_[0] -= own;
          deal(core + 1, std::max(slowest, load), remaining - size, load);
          left_[2] += far;
          left_[1] += near;
          left_[0] += own;
        }
      }
      if (size == 0) break;
    }
  }

  std::array<std::uint32_t, kHopClasses> left_;
  std::array<std::uint64_t, kHopClasses> cost_;
  std::uint32_t cores_;
  std::uint32_t total_ = 0;
  std::uint64_t best_ = std::numeric_limits<std::uint64_t>::max();
};

TEST(UbepSchedule, TheExactSolverSolves) {
  // Two cores, two entries each: 5 + 1 and 5 + 1, or 5 + 5 and 1 + 1.
  EXPECT_EQ(Exact({2, 0, 2}, {1, 2, 5}, 2).slowest(), 6u);
  EXPECT_EQ(Exact({1, 1, 1}, {1, 2, 5}, 3).slowest(), 5u);
  EXPECT_EQ(Exact({0, 3, 0}, {1, 2, 5}, 2).slowest(), 4u);
  EXPECT_EQ(Exact({0, 0, 0}, {1, 2, 5}, 2).slowest(), 0u);
}

TEST(UbepSchedule, HopAwareIsWithinAnEntryOfTheOptimum) {
  std::uint32_t strictly_better_than_balanced = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    emu::RandomStream random(seed, 2, "schedule test");
    const Case made = random_case(random, 18, 6);
    const auto cores = static_cast<std::uint32_t>(1 + random.below(5));
    std::array<std::uint64_t, kHopClasses> cost{};
    cost[0] = 1 + random.below(20);
    cost[1] = cost[0] + random.below(30);
    cost[2] = cost[1] + random.below(60);
    std::array<std::uint32_t, kHopClasses> in_class{};
    for (std::size_t e = 0; e < made.counts.size(); ++e) {
      in_class[made.hop_class[e]] += made.counts[e];
    }
    const auto slowest = [&](Schedule schedule) {
      std::uint64_t most = 0;
      for (std::uint32_t core = 0; core < cores; ++core) {
        std::uint64_t load = 0;
        for (const Send& send : sends(schedule, made.batch(), cores, core)) {
          load += cost[made.hop_class[static_cast<std::size_t>(made.ids[send.entry])]];
        }
        most = std::max(most, load);
      }
      return most;
    };
    const std::uint64_t optimum = Exact(in_class, cost, cores).slowest();
    const std::uint64_t hop_aware = slowest(Schedule::kHopAware);
    ASSERT_GE(hop_aware, optimum) << "seed " << seed;
    ASSERT_LE(hop_aware, optimum + cost[2]) << "seed " << seed;
    if (hop_aware < slowest(Schedule::kBalanced)) ++strictly_better_than_balanced;
  }
  EXPECT_GT(strictly_better_than_balanced, 300u) << "the cases no longer tell the schedules apart";
}

TEST(UbepSchedule, SearchAndSortFindTheSame) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    emu::RandomStream random(seed, 3, "schedule test");
    const Case made = random_case(random, 300, seed % 10 == 0 ? 1100 : 40);
    const Positions at = positions(made.batch(), seed % 2 == 0);
    std::vector<std::uint32_t> index_of(made.counts.size());
    for (std::uint32_t i = 0; i < at.order.size(); ++i) index_of[at.order[i]] = i;
    std::vector<std::uint32_t> keys;
    for (const std::int32_t id : made.ids) {
      if (id >= 0) keys.push_back(index_of[static_cast<std::size_t>(id)]);
    }
    std::vector<std::uint32_t> wanted(at.total());
    for (std::uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    const auto found = locate_by_search(at, wanted);
    ASSERT_EQ(found, locate_by_sort(keys, wanted)) << "seed " << seed;
    for (std::uint32_t position = 0; position < found.size(); ++position) {
      const auto [index, place] = found[position];
      ASSERT_EQ(at.before[index] + place, position);
      ASSERT_LT(place, made.counts[at.order[index]]);
    }
  }
}

TEST(UbepSchedule, StepsOfTheMapper) {
  EXPECT_EQ(search_steps(1), 0u);
  EXPECT_EQ(search_steps(4), 1u);
  for (const std::uint32_t experts : {96u, 256u}) EXPECT_EQ(search_steps(experts), 4u);
  for (const std::uint32_t experts : {320u, 1024u}) EXPECT_EQ(search_steps(experts), 5u);
  EXPECT_EQ(sort_passes(1), 0u);
  EXPECT_EQ(sort_passes(8), 6u);
  EXPECT_EQ(sort_passes(1024), 55u);
}

TEST(UbepSchedule, FarClassesComeFirstAndRoundTheRanks) {
  Case made;
  made.ids = {0, 1, 2, 3, 4, 5};
  made.counts.assign(6, 1);
  made.hop_class = {0, 0, 1, 1, 2, 2};
  made.first_expert = 3;
  EXPECT_EQ(positions(made.batch(), true).order, (std::vector<std::uint32_t>{4, 5, 3, 2, 0, 1}));
  EXPECT_EQ(positions(made.batch(), false).order, (std::vector<std::uint32_t>{3, 4, 5, 0, 1, 2}));
}

// --- Counting cores ---

devices::Costs costs() {
  devices::Device device;
  device.set_cores(48);
  device.set_issue_ns(100);
  device.set_outstanding_stores(8);
  device.set_core_store_gb_per_s(8.167);
  device.set_core_copy_gb_per_s(33);
  device.set_poll_ns(20);
  device.set_vector_pass_ns(30);
  device.set_vector_elements_per_ns(50);
  return devices::Costs(device);
}
DispatchSize size(std::uint32_t ranks, std::uint32_t experts, std::uint32_t entries) {
  return {48,
          ranks,
          experts,
          (experts + ranks - 1) / ranks,
          entries,
          7680,
          emu::from_ns(1900),
          emu::from_ns(5000)};
}

TEST(UbepCountCores, GrowWithDevicesAndExperts) {
  for (const std::uint32_t entries : {8u, 64u, 256u, 1024u, 2048u}) {
    for (const std::uint32_t experts : {64u, 256u, 1024u}) {
      std::uint32_t before = 0;
      for (const std::uint32_t ranks : {2u, 8u, 16u, 32u, 64u, 128u, 256u, 512u}) {
        const std::uint32_t now = count_cores(costs(), size(ranks, experts, entries));
        EXPECT_GE(now, before) << entries << " entries, " << experts << " experts, " << ranks;
        before = now;
      }
    }
    for (const std::uint32_t ranks : {8u, 64u, 256u}) {
      std::uint32_t before = 0;
      for (const std::uint32_t experts : {16u, 64u, 128u, 256u, 512u, 1024u, 2048u}) {
        const std::uint32_t now = count_cores(costs(), size(ranks, experts, entries));
        EXPECT_GE(now, before) << entries << " entries, " << ranks << " ranks, " << experts;
        before = now;
      }
    }
  }
  EXPECT_GT(count_cores(costs(), size(256, 1024, 1024)), count_cores(costs(), size(8, 64, 1024)));
}

TEST(UbepCountCores, ShrinkWithTheBatch) {
  EXPECT_GT(count_cores(costs(), size(64, 256, 8)), count_cores(costs(), size(64, 256, 1024)));
}

// Statuses to 256 devices fill a core's window; to 4 devices they do not.
TEST(UbepCountCores, GrowWithTheRoundTripWhereTheWindowFills) {
  DispatchSize far = size(256, 256, 256);
  DispatchSize near = far;
  near.round_trip = emu::from_ns(500);
  EXPECT_GT(count_cores(costs(), far), count_cores(costs(), near));
  // By hand: 64 puts by each of 4, 8 at a time, so that 7 times 8 wait for 5 us.
  const emu::Time statuses = 64 * (kCountPasses * costs().vector(256) + costs().issue);
  devices::Costs unlimited = costs();
  unlimited.outstanding_stores = 0;
  EXPECT_EQ(count_time(costs(), far, 4) - statuses / 8 - emu::from_ns(7 * 5000),
            count_time(unlimited, far, 4) - statuses);

  far = near = size(4, 256, 256);
  near.round_trip = emu::from_ns(500);
  for (std::uint32_t counters = 1; counters < 48; ++counters) {
    EXPECT_EQ(count_time(costs(), far, counters), count_time(costs(), near, counters));
  }
}

TEST(UbepCountCores, LeaveEachRoleACore) {
  for (std::uint32_t cores = 1; cores < 20; ++cores) {
    for (const std::uint32_t entries : {0u, 1u, 100u, 100'000u}) {
      DispatchSize each = size(64, 4096, entries);
      each.cores = cores;
      const std::uint32_t counters = count_cores(costs(), each);
      EXPECT_GE(counters, 1u);
      EXPECT_LE(counters, std::max(cores - 1, 1u));
    }
  }
}

TEST(UbepCountCores, MinimiseTheSlowerGroup) {
  const DispatchSize each = size(64, 256, 512);
  const std::uint32_t best = count_cores(costs(), each);
  const auto slower = [&](std::uint32_t counters) {
    return std::max(send_time(costs(), each, 48 - counters), count_time(costs(), each, counters));
  };
  for (std::uint32_t counters = 1; counters < 48; ++counters) {
    EXPECT_LE(slower(best), slower(counters));
    if (counters < best) {
      EXPECT_LT(slower(best), slower(counters));
    }
  }
}

}  // namespace
}  // namespace orrery::moe::ubep
