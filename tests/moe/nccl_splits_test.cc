// Which rows go where, given everybody's counts: chunks fill the lists of both ends without gaps.
#include "moe/algorithms/nccl_splits.h"

#include <gtest/gtest.h>

#include <random>

namespace orrery::moe {
namespace {

class Splits : public testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {
 protected:
  std::uint32_t experts() const { return GetParam().first; }
  std::uint32_t devices() const { return GetParam().second; }
  ExpertPlacement placement_{GetParam().first, GetParam().second};

  std::vector<std::uint32_t> counts() const {
    std::mt19937 random(experts() * 100 + devices());
    std::vector<std::uint32_t> counts(std::size_t{experts()} * devices());
    for (std::uint32_t& each : counts) each = random() % 4;
    return counts;
  }
};

TEST_P(Splits, ChunksFillBothListsInOrder) {
  const auto counts = this->counts();
  for (std::uint32_t device = 0; device < devices(); ++device) {
    const NcclSplits here(counts, placement_, device);
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (std::uint32_t peer = 0; peer < devices(); ++peer) {
      const NcclSplits there(counts, placement_, peer);
      EXPECT_EQ(here.forth(peer).from, sent);
      EXPECT_EQ(there.forth(device).to, received);
      sent += here.forth(peer).count;
      received += there.forth(device).count;
      // What goes forth comes back to where it was.
      EXPECT_EQ(there.back(device).from, here.forth(peer).to);
      EXPECT_EQ(there.back(device).to, here.forth(peer).from);
      EXPECT_EQ(there.back(device).count, here.forth(peer).count);
    }
    std::uint64_t own = 0;
    for (std::uint32_t expert = 0; expert < experts(); ++expert) {
      EXPECT_EQ(here.starts()[expert], own);
      own += here.count(device, expert);
    }
    EXPECT_EQ(sent, own);
  }
}

TEST_P(Splits, SortingIsAPermutationFromSourcesToExperts) {
  const auto counts = this->counts();
  for (std::uint32_t device = 0; device < devices(); ++device) {
    const NcclSplits splits(counts, placement_, device);
    const std::uint32_t blocks = placement_.count(device) * devices();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_source;  // (source, local)
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_expert;
    std::uint64_t rows = 0;
    for (std::uint32_t source = 0; source < devices(); ++source) {
      for (std::uint32_t local = 0; local < placement_.count(device); ++local) {
        const std::uint32_t count = splits.count(source, placement_.begin(device) + local);
        by_source.insert(by_source.end(), count, {source, local});
      }
    }
    for (std::uint32_t local = 0; local < placement_.count(device); ++local) {
      for (std::uint32_t source = 0; source < devices(); ++source) {
        const std::uint32_t count = splits.count(source, placement_.begin(device) + local);
        by_expert.insert(by_expert.end(), count, {source, local});
      }
      rows += splits.rows_of(local);
    }
    EXPECT_EQ(by_expert.size(), rows);
    // In any number of parts.
    for (const std::uint32_t parts : {1u, 3u, 7u}) {
      std::uint64_t next = 0;
      for (std::uint32_t part = 0; part < parts; ++part) {
        for (const auto& [source, expert] : splits.sorted(share(blocks, parts, part))) {
          EXPECT_EQ(expert, next++);
          EXPECT_EQ(by_source[source], by_expert[expert]);
        }
      }
      EXPECT_EQ(next, rows);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Splits,
                         testing::Values(std::pair{8u, 4u}, std::pair{5u, 3u}, std::pair{3u, 7u},
                                         std::pair{1u, 1u}, std::pair{24u, 5u}));

}  // namespace
}  // namespace orrery::moe
