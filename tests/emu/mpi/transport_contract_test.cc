// The one contract of all transports, run for each by name under mpirun.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "emu/errors.h"
#include "tests/emu/mpi/mpi_test.h"

namespace orrery::emu {
namespace {

class TransportContract : public MpiTest {
 protected:
  /// Byte `i` of what `source` puts to `target` in `round`.
  static std::byte pattern(int source, int target, int round, std::size_t i) {
    return static_cast<std::byte>((static_cast<std::size_t>(source) * 131 +
                                   static_cast<std::size_t>(target) * 31 +
                                   static_cast<std::size_t>(round) * 17 + i * 7 + (i >> 8)) &
                                  0xff);
  }
  static std::vector<std::byte> filled(int source, int target, int round, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = pattern(source, target, round, i);
    return out;
  }
  static bool matches(std::span<const std::byte> got, int source, int target, int round) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != pattern(source, target, round, i)) return false;
    }
    return true;
  }
  static void meet(Transport& transport) {
    std::int64_t none = 0;
    transport.reduce_min({&none, 1});
  }
  /// Exposes `bytes`, all zero before anyone puts.
  static std::span<std::byte> expose_zeroed(Transport& transport, std::size_t bytes) {
    const auto landing = transport.expose(bytes);
    std::fill(landing.begin(), landing.end(), std::byte{0});
    processes().barrier();
    return landing;
  }
  static std::size_t count() { return static_cast<std::size_t>(size()); }
  static std::size_t me() { return static_cast<std::size_t>(rank()); }
};

TEST_F(TransportContract, HasTheNameItWasMadeBy) {
  const auto transport = make();
  EXPECT_EQ(transport->name(), transport_name);
}

TEST_F(TransportContract, LandingIsAlignedAndAsLargeAsAsked) {
  const auto transport = make();
  const std::size_t bytes = 1000 + 77 * me();  // sizes may differ
  const auto landing = transport->expose(bytes);
  EXPECT_EQ(landing.size(), bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(landing.data()) % 64, 0u);
  EXPECT_THROW(transport->put((rank() + 1) % size(), 1 << 20, landing.first(1)), InvariantError);
}

TEST_F(TransportContract, TinyPutsAtUnalignedOffsetsTouchNothingElse) {
  const auto transport = make();
  const std::size_t slot = 64;
  const auto landing = expose_zeroed(*transport, count() * slot);
  std::vector<std::vector<std::byte>> sources;
  for (int peer = 0; peer < size(); ++peer) sources.push_back(filled(rank(), peer, 0, 10));
  for (int peer = 0; peer < size(); ++peer) {
    const std::span<const std::byte> source = sources[static_cast<std::size_t>(peer)];
    transport->put(peer, me() * slot + 3, source.first(1));
    transport->put(peer, me() * slot + 17, source.first(7));
    transport->put(peer, me() * slot + 53, source.first(10));
    transport->put(peer, me() * slot, source.first(0));
  }
  transport->flush();
  meet(*transport);
  for (std::size_t source = 0; source < count(); ++source) {
    std::vector<std::byte> expected(slot);
    for (const auto& [at, bytes] : {std::pair{3, 1}, {17, 7}, {53, 10}}) {
      for (int i = 0; i < bytes; ++i) {
        expected[static_cast<std::size_t>(at + i)] =
            pattern(static_cast<int>(source), rank(), 0, static_cast<std::size_t>(i));
      }
    }
    const auto got = landing.subspan(source * slot, slot);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << "from process " << source;
  }
}

TEST_F(TransportContract, LargePuts) {
  const auto transport = make();
  const std::size_t bytes = (std::size_t{8} << 20) + 13;
  const auto landing = expose_zeroed(*transport, bytes + 5);
  const int to = (rank() + 1) % size();
  const int from = (rank() + size() - 1) % size();
  for (int round = 0; round < 2; ++round) {
    const auto source = filled(rank(), to, round, bytes);
    transport->put(to, 5, source);
    transport->flush();
    meet(*transport);
    EXPECT_TRUE(matches(landing.subspan(5), from, rank(), round)) << "round " << round;
    meet(*transport);
  }
}

// All to all, window after window with different bytes at the same place: a flush that returns
// before the bytes are in place shows an old round.
TEST_F(TransportContract, AFlushAndAReductionMakePutsVisible) {
  const auto transport = make();
  constexpr std::size_t kBytes = 40'000;
  constexpr int kRounds = 12;
  const auto landing = expose_zeroed(*transport, count() * kBytes);
  std::vector<std::vector<std::byte>> sources(count());
  for (int round = 0; round < kRounds; ++round) {
    for (int peer = 0; peer < size(); ++peer) {
      auto& source = sources[static_cast<std::size_t>(peer)];
      source = filled(rank(), peer, round, kBytes);
      transport->put(peer, me() * kBytes, source);
    }
    transport->flush();
    // The source is free after the flush.
    for (auto& source : sources) std::fill(source.begin(), source.end(), std::byte{0xee});
    meet(*transport);
    for (int source = 0; source < size(); ++source) {
      EXPECT_TRUE(matches(landing.subspan(static_cast<std::size_t>(source) * kBytes, kBytes),
                          source, rank(), round))
          << "round " << round << ", from process " << source;
    }
    meet(*transport);
  }
}

// Two puts to the same byte in two flushes: the second wins.
TEST_F(TransportContract, FlushesOrderPuts) {
  const auto transport = make();
  const auto landing = expose_zeroed(*transport, count() * 8);
  const int to = (rank() + 1) % size();
  const std::size_t from = (me() + count() - 1) % count();
  for (std::int64_t round = 0; round < 200; ++round) {
    const std::int64_t first = -1 - round;
    transport->put(to, me() * 8, std::as_bytes(std::span(&first, 1)));
    transport->flush();
    const std::int64_t second = round;
    transport->put(to, me() * 8, std::as_bytes(std::span(&second, 1)));
    transport->flush();
    meet(*transport);
    std::int64_t got = 0;
    std::memcpy(&got, landing.data() + from * 8, 8);
    EXPECT_EQ(got, round);
    meet(*transport);
  }
}

TEST_F(TransportContract, ManyPutsBetweenTwoFlushes) {
  const auto transport = make();
  constexpr std::size_t kPuts = 3000;
  const auto landing = expose_zeroed(*transport, count() * kPuts * 8);
  std::vector<std::uint64_t> values(kPuts);
  for (std::size_t i = 0; i < kPuts; ++i) values[i] = (me() << 32) + i + 1;
  for (std::size_t i = 0; i < kPuts; ++i) {
    const int peer = static_cast<int>((me() + i) % count());
    transport->put(peer, (me() * kPuts + i) * 8, std::as_bytes(std::span(&values[i], 1)));
  }
  transport->flush();
  meet(*transport);
  std::size_t wrong = 0;
  for (std::size_t source = 0; source < count(); ++source) {
    for (std::size_t i = 0; i < kPuts; ++i) {
      std::uint64_t got = 0;
      std::memcpy(&got, landing.data() + (source * kPuts + i) * 8, 8);
      const bool mine = (source + i) % count() == me();
      wrong += got != (mine ? (source << 32) + i + 1 : 0) ? 1 : 0;
    }
  }
  EXPECT_EQ(wrong, 0u);
}

// A target that only progresses sees a put arrive, without any reduction.
TEST_F(TransportContract, ProgressAloneLetsAPutArrive) {
  const auto transport = make();
  const auto landing = expose_zeroed(*transport, count() * 64);
  const int to = (rank() + 1) % size();
  const std::size_t from = (me() + count() - 1) % count();
  const std::uint64_t one = 1;
  transport->put(to, me() * 64, std::as_bytes(std::span(&one, 1)));
  transport->flush();
  const auto* word = reinterpret_cast<const volatile std::uint64_t*>(landing.data() + from * 64);
  while (*word != one) transport->progress();
  meet(*transport);
}

TEST_F(TransportContract, MinimaOfSeveralValues) {
  const auto transport = make();
  for (std::int64_t round = 0; round < 50; ++round) {
    const std::int64_t mine = rank();
    std::vector<std::int64_t> values{round + mine, round - mine,
                                     std::numeric_limits<std::int64_t>::max() - mine,
                                     rank() == round % size() ? -7 : 5};
    transport->reduce_min(values);
    EXPECT_EQ(values[0], round);
    EXPECT_EQ(values[1], round - (size() - 1));
    EXPECT_EQ(values[2], std::numeric_limits<std::int64_t>::max() - (size() - 1));
    EXPECT_EQ(values[3], -7);
  }
}

// Nobody leaves a reduction before all have started it.
TEST_F(TransportContract, AReductionWaitsForAll) {
  const auto transport = make();
  const auto landing = expose_zeroed(*transport, 8);
  for (std::int64_t round = 1; round <= 20; ++round) {
    const int late = static_cast<int>(round) % size();
    if (rank() == late) {
      for (int i = 0; i < 300; ++i) transport->progress();
      for (int peer = 0; peer < size(); ++peer) {
        transport->put(peer, 0, std::as_bytes(std::span(&round, 1)));
      }
      transport->flush();
    }
    std::int64_t value = rank() == late ? -round : round;
    transport->reduce_min({&value, 1});
    EXPECT_EQ(value, -round);
    std::int64_t got = 0;
    std::memcpy(&got, landing.data(), 8);
    EXPECT_EQ(got, round);
    meet(*transport);
  }
}

// The reduction overlaps puts that nobody has flushed; they are in place after the next flush and
// reduction.
TEST_F(TransportContract, ReductionsRunWhilePutsAreUnderWay) {
  const auto transport = make();
  constexpr std::size_t kBytes = 200'000;
  const auto landing = expose_zeroed(*transport, count() * kBytes);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<std::byte>> sources;
    std::int64_t value = 100 + rank();
    transport->start_min({&value, 1});
    for (int peer = 0; peer < size(); ++peer) {
      sources.push_back(filled(rank(), peer, round, kBytes));
      transport->put(peer, me() * kBytes, sources.back());
    }
    while (!transport->test_min({&value, 1})) {
    }
    EXPECT_EQ(value, 100);
    transport->flush();
    meet(*transport);
    for (int source = 0; source < size(); ++source) {
      EXPECT_TRUE(matches(landing.subspan(static_cast<std::size_t>(source) * kBytes, kBytes),
                          source, rank(), round));
    }
    meet(*transport);
  }
}

TEST_F(TransportContract, OneMayEndWhileOthersStillPut) {
  for (int round = 0; round < 3; ++round) {
    const auto transport = make();
    const auto landing = expose_zeroed(*transport, count() * 1000);
    const auto source = filled(rank(), 0, round, 1000);
    if (rank() != 0) transport->put(0, me() * 1000, source);
    // The destructor waits for all and flushes.
  }
}

TEST_F(TransportContract, UnknownNamesAreRefused) {
  EXPECT_THROW(make_transport("carrier-pigeon", processes()), ConfigError);
  if (size() > 1) {
    EXPECT_THROW(make_transport("local", processes()), ConfigError);
  }
}

}  // namespace
}  // namespace orrery::emu
