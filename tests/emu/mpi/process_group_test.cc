// The collectives of a process group.
#include "emu/process_group.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "emu/errors.h"
#include "tests/emu/mpi/mpi_test.h"

namespace orrery::emu {
namespace {

using ProcessGroupTest = MpiTest;

/// Different lengths per process, none at all from rank 0.
std::vector<std::byte> words_of(int rank) {
  return std::vector<std::byte>(static_cast<std::size_t>(rank) * 1000,
                                static_cast<std::byte>(rank + 1));
}

TEST_F(ProcessGroupTest, KnowsItsPlace) {
  EXPECT_TRUE(processes().uses_mpi());
  EXPECT_GE(rank(), 0);
  EXPECT_LT(rank(), size());
  EXPECT_EQ(processes().local_size(), size());
  EXPECT_FALSE(processes().failed());
}

TEST_F(ProcessGroupTest, AllGatherGivesEveryoneEverything) {
  const auto all = processes().all_gather(words_of(rank()));
  EXPECT_EQ(all.size(), static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], words_of(i));
}

TEST_F(ProcessGroupTest, GatherGivesRankZeroEverything) {
  const auto all = processes().gather(words_of(rank()));
  EXPECT_EQ(all.size(), rank() == 0 ? static_cast<std::size_t>(size()) : 0u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], words_of(static_cast<int>(i)));
}

TEST_F(ProcessGroupTest, Broadcast) {
  for (int root = 0; root < size(); ++root) {
    std::int64_t value = rank() == root ? 1000 + root : -1;
    processes().broadcast(std::as_writable_bytes(std::span(&value, 1)), root);
    EXPECT_EQ(value, 1000 + root);
  }
}

TEST_F(ProcessGroupTest, MaxAndSum) {
  EXPECT_EQ(processes().max(-5 + rank()), size() - 6);
  EXPECT_EQ(processes().sum(rank() + 1), size() * (size() + 1) / 2);
}

TEST_F(ProcessGroupTest, PartsKeepToThemselves) {
  const ProcessGroup part(processes(), rank() / 2);
  const int first = rank() / 2 * 2;
  const int members = std::min(2, size() - first);
  EXPECT_EQ(part.size(), members);
  EXPECT_EQ(part.rank(), rank() - first);
  EXPECT_EQ(part.uses_mpi(), members > 1);
  EXPECT_EQ(part.sum(rank()), members == 2 ? 2 * first + 1 : first);
  EXPECT_EQ(part.max(rank()), first + members - 1);
  part.barrier();
  // A transport of a part reaches the part's processes alone.
  const auto transport = make_transport("auto", part);
  std::int64_t value = rank();
  transport->reduce_min({&value, 1});
  EXPECT_EQ(value, first);
}

TEST_F(ProcessGroupTest, WhatBreaksAPartBreaksTheWhole) {
  const ProcessGroup whole;
  const ProcessGroup part(whole, 0);
  EXPECT_THROW(part.fail("lost"), TransportError);
  EXPECT_TRUE(whole.failed());
}

TEST_F(ProcessGroupTest, APatientBarrierLetsNobodyGoEarly) {
  std::int64_t waits = 0;
  processes().barrier();
  if (rank() == size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  processes().patient_barrier([&waits] { ++waits; });
  if (rank() == 0 && size() > 1) {
    EXPECT_GT(waits, 0);
  }
}

TEST_F(ProcessGroupTest, AGroupWithoutMpiIsAlone) {
  const ProcessGroup alone;
  const std::vector<std::byte> mine(3, std::byte{1});
  const std::vector<std::vector<std::byte>> all(1, mine);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_FALSE(alone.uses_mpi());
  EXPECT_EQ(alone.all_gather(mine), all);
  EXPECT_EQ(alone.gather(mine), all);
  EXPECT_EQ(alone.max(3), 3);
  EXPECT_EQ(alone.sum(4), 4);
  alone.barrier();
  EXPECT_FALSE(alone.failed());
  EXPECT_THROW(alone.fail("lost"), TransportError);
  EXPECT_TRUE(alone.failed());
}

}  // namespace
}  // namespace orrery::emu
