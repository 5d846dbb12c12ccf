// Polling is computed, not simulated (R5): here it is simulated, read by read, and compared.
#include "devices/wait.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "emu/random.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

struct Write {
  Time visible;
  std::uint32_t slot;
  std::uint32_t value;
};

// Two devices on one direct link so fast that a flag is visible 1 ns + 1 ps after its core issues
// it; issue and launch are free.
constexpr Time kFlight = 1'001;
constexpr fabric::Address kSlots = 4096;

Rig direct_link(double poll_ns) {
  return Rig(
      machine_of("fabric { full_mesh { dimensions: 2 links { latency_ns: 1 gb_per_s: 1000000 } } }"
                 "device { cores: 4 poll_ns: " +
                 std::to_string(poll_ns) + " }"),
      2);
}

// What a poll loop does: sweep s reads slot i at t0 + (s n + i) c; the sweep that saw all slots
// satisfied ends the wait, at its own end. A read sees what is visible at that very moment.
Time simulate(const std::vector<Write>& writes, std::uint32_t slots, Time t0, Time poll,
              std::uint32_t wanted) {
  for (Time now = t0;;) {
    bool all = true;
    for (std::uint32_t slot = 0; slot < slots; ++slot, now += poll) {
      std::uint32_t value = 0;
      for (const Write& write : writes) {
        if (write.slot == slot && write.visible <= now) value = write.value;
      }
      all = all && value == wanted;
    }
    if (all) return now;
  }
}

// Writes in order of time, by one core of device 1; polled by one core of device 0 from `t0` on.
Time measure(const std::vector<Write>& writes, std::uint32_t slots, Time t0, double poll_ns,
             std::uint32_t wanted) {
  Rig rig = direct_link(poll_ns);
  Time end = 0;
  rig.run(1, [&](Core& core) -> Task {
    for (const Write& write : writes) {
      co_await core.compute(write.visible - kFlight - core.now());
      co_await core.store(0, kSlots + write.slot * 64, write.value);
    }
  });
  rig.run(
      0,
      [&](Core& core) -> Task {
        const Slots all{kSlots, 4, 64, slots, 0};
        co_await core.wait_until(all, word_equals(wanted), nobody);
        end = core.now();
      },
      1, t0);
  EXPECT_EQ(rig.go(), "");
  return end;
}

// Times that often fall on a read exactly, just before or just after it.
std::vector<Time> random_times(emu::RandomStream& random, std::size_t count, Time t0, Time poll,
                               Time span) {
  std::vector<Time> times;
  for (std::size_t i = 0; i < count; ++i) {
    Time time = kFlight + static_cast<Time>(random.below(static_cast<std::uint64_t>(span)));
    if (random.below(2) == 0) {
      time = t0 + (time - t0) / poll * poll + static_cast<Time>(random.below(3)) - 1;
    }
    times.push_back(std::max(time, kFlight));
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

TEST(Wait, EachSlotWrittenOnce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    emu::RandomStream random(seed, 0, "wait test");
    const auto slots = static_cast<std::uint32_t>(1 + random.below(9));
    const Time poll = static_cast<Time>(1 + random.below(40)) * 1'000;
    const Time t0 = static_cast<Time>(random.below(100'000));
    std::vector<Write> writes;
    for (const Time time : random_times(random, slots, t0, poll, 300'000)) {
      writes.push_back({time, static_cast<std::uint32_t>(writes.size()), 1});
    }
    while (writes.size() < slots) {
      writes.push_back({writes.back().visible + 1, static_cast<std::uint32_t>(writes.size()), 1});
    }
    for (std::size_t i = slots - 1; i > 0; --i)
      std::swap(writes[i].slot, writes[random.below(i + 1)].slot);
    ASSERT_EQ(measure(writes, slots, t0, static_cast<double>(poll) / 1e3, 1),
              simulate(writes, slots, t0, poll, 1))
        << "seed " << seed;
  }
}

// Slots that hold the wanted value for a while and then another one, so that a sweep sees it or
// misses it.
TEST(Wait, SlotsThatChangeBack) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    emu::RandomStream random(seed, 1, "wait test");
    const auto slots = static_cast<std::uint32_t>(1 + random.below(4));
    const Time poll = static_cast<Time>(1 + random.below(20)) * 1'000;
    const Time t0 = static_cast<Time>(random.below(30'000));
    std::vector<Write> writes;
    for (const Time time : random_times(random, 30, t0, poll, 200'000)) {
      writes.push_back({time, static_cast<std::uint32_t>(random.below(slots)),
                        static_cast<std::uint32_t>(random.below(3) > 0 ? 1 : 2)});
    }
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      writes.push_back({writes.back().visible + 1, slot, 1});
    ASSERT_EQ(measure(writes, slots, t0, static_cast<double>(poll) / 1e3, 1),
              simulate(writes, slots, t0, poll, 1))
        << "seed " << seed;
  }
}

TEST(Wait, SatisfiedFromTheStartTakesOneSweep) {
  Rig rig = direct_link(10);
  Time end = 0;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.wait_until(Slots{kSlots, 4, 64, 7, 0}, word_equals(0), nobody);
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, 7 * ns(10));
}

TEST(Wait, NoSlotsTakeNoTime) {
  Rig rig = direct_link(10);
  Time end = -1;
  rig.run(0, [&](Core& core) -> Task {
    co_await core.wait_until(Slots{kSlots, 4, 64, 0, 0}, word_equals(1), nobody);
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(end, 0);
}

TEST(Wait, SkippedSlotsAreReadButNotWaitedFor) {
  Rig rig = direct_link(10);
  Time end = 0;
  rig.run(1, [](Core& core) -> Task { co_await core.store(0, kSlots + 64, std::uint32_t{1}); });
  rig.run(0, [&](Core& core) -> Task {
    co_await core.wait_until(Slots{kSlots, 4, 64, 3, 0b101}, word_equals(1), nobody);
    end = core.now();
  });
  EXPECT_EQ(rig.go(), "");
  // Visible at 1.001 ns; slot 1 is read at 10 ns, in the first sweep of three slots.
  EXPECT_EQ(end, ns(30));
}

TEST(Wait, Predicates) {
  const auto holds = [](const Predicate& predicate, std::uint32_t value) {
    return predicate.test(reinterpret_cast<const std::byte*>(&value), predicate.argument);
  };
  EXPECT_TRUE(holds(word_equals(5), 5));
  EXPECT_FALSE(holds(word_equals(5), 6));
  EXPECT_TRUE(holds(word_differs(5), 6));
  EXPECT_FALSE(holds(word_differs(5), 5));
  EXPECT_TRUE(holds(word_at_least(5), 5));
  EXPECT_TRUE(holds(word_at_least(5), 0xffffffff));
  EXPECT_FALSE(holds(word_at_least(5), 4));
}

TEST(Wait, CountsItsReads) {
  Rig rig = direct_link(10);
  rig.run(1, [](Core& core) -> Task {
    co_await core.compute(ns(75) - kFlight);
    co_await core.store(0, kSlots, std::uint32_t{1});
  });
  rig.run(0, [](Core& core) -> Task {
    co_await core.wait_until(Slots{kSlots, 4, 64, 2, 0b10}, word_equals(1), nobody);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.device(0).counters().polls,
            10u);  // sweeps at 0, 20, 40, 60 and 80 ns, of two slots each
}

TEST(Wait, OneByteOfAWideSlotWakesTheWaiter) {
  Rig rig = direct_link(1);
  rig.run(1, [](Core& core) -> Task { co_await core.store(0, kSlots + 3, std::uint8_t{1}); });
  rig.run(0, [](Core& core) -> Task {
    co_await core.wait_until(Slots{kSlots, 4, 4, 1, 0}, word_equals(0x01000000), nobody);
  });
  EXPECT_EQ(rig.go(), "");
}

}  // namespace
}  // namespace orrery::devices
