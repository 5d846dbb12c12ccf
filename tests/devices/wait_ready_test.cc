// Waits for places, any or all, are computed, not simulated: here they are simulated, read by read,
// and compared.
#include "devices/wait_ready.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "emu/random.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;
using testing::HasSubstr;

// As in wait_test.cc: a flag is visible 1 ns + 1 ps after its core issues it.
constexpr Time kFlight = 1'001;
constexpr fabric::Address kPlaces = 4096;
constexpr fabric::Address kApart = 192;

Rig direct_link() {
  return Rig(machine_of("fabric { full_mesh { dimensions: 2 links { latency_ns: 1 gb_per_s: "
                        "1000000 } } } device { cores: 4 poll_ns: 10 }"),
             2);
}

struct Ended {
  Time time = 0;
  std::uint64_t seen = 0;
  bool operator==(const Ended&) const = default;
};

// `visible[i]`: when place i is ready. All: sweeps over all places; the first at whose end all were
// seen ends the wait. Any: goes round them from `first`; the first one that is ready ends it.
Ended simulate(const std::vector<Time>& visible, Time t0, Time read, bool all,
               std::uint32_t first) {
  const auto everything = (std::uint64_t{1} << visible.size()) - 1;
  for (Time now = t0;;) {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < visible.size(); ++i) {
      const std::size_t place = all ? i : (first + i) % visible.size();
      const bool ready = visible[place] <= now;
      now += read;
      if (!ready) continue;
      seen |= std::uint64_t{1} << place;
      if (!all) return {now, seen};
    }
    if (seen == everything) return {now, seen};
  }
}

Ended measure(const std::vector<Time>& visible, Time t0, Time read, bool all,
              std::uint32_t first = 0) {
  Rig rig = direct_link();
  std::vector<std::pair<Time, std::uint32_t>> writes;
  for (std::uint32_t i = 0; i < visible.size(); ++i) writes.push_back({visible[i], i});
  std::sort(writes.begin(), writes.end());
  rig.run(1, [&](Core& core) -> Task {
    for (const auto& [time, place] : writes) {
      co_await core.compute(time - kFlight - core.now());
      co_await core.store(0, kPlaces + place * kApart, std::uint32_t{7});
    }
  });
  Ended ended;
  rig.run(
      0,
      [&](Core& core) -> Task {
        std::vector<Place> places;
        for (std::uint32_t i = 0; i < visible.size(); ++i) {
          places.push_back({kPlaces + i * kApart, 4});
        }
        const auto ready = [&](std::uint32_t i) {
          std::uint32_t value;
          std::memcpy(&value, core.probe(places[i].address, 4).data(), 4);
          return value == 7;
        };
        if (all) {
          ended.seen = co_await core.wait_all(places, ready, read, "a seven", nobody);
        } else {
          ended.seen = co_await core.wait_any(places, ready, read, "a seven", nobody, first);
        }
        ended.time = core.now();
      },
      1, t0);
  EXPECT_EQ(rig.go(), "");
  return ended;
}

void compare(bool all) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    emu::RandomStream random(seed, all, "wait ready test");
    const std::uint64_t places = 1 + random.below(9);
    const Time read = static_cast<Time>(1 + random.below(40)) * 1'000;
    const Time t0 = static_cast<Time>(random.below(100'000));
    std::vector<Time> visible;
    for (std::uint64_t i = 0; i < places; ++i) {
      Time time = kFlight + static_cast<Time>(random.below(300'000));
      // Often at a read exactly, just before or just after it.
      if (random.below(2) == 0) {
        time = t0 + (time - t0) / read * read + static_cast<Time>(random.below(3)) - 1;
      }
      visible.push_back(std::max(time, kFlight));
      while (std::count(visible.begin(), visible.end(), visible.back()) > 1) ++visible.back();
    }
    const auto first = static_cast<std::uint32_t>(random.below(places));
    const Ended measured = measure(visible, t0, read, all, first);
    const Ended expected = simulate(visible, t0, read, all, first);
    ASSERT_EQ(measured.time, expected.time) << "seed " << seed;
    ASSERT_EQ(measured.seen, expected.seen) << "seed " << seed;
  }
}

TEST(WaitReady, AnyEndsWithTheFirstReadThatSawOne) { compare(false); }
TEST(WaitReady, AllEndsWithTheFirstSweepThatSawAll) { compare(true); }

TEST(WaitReady, ClosedForm) {
  // Three places, 10 ns each; place 1 is ready at 75 ns: read at 70 (too early), then at 100.
  EXPECT_EQ(measure({ns(500), ns(75), ns(900)}, 0, ns(10), false), (Ended{ns(110), 0b010}));
  // Ready at 65 ns: read at 70.
  EXPECT_EQ(measure({ns(500), ns(65), ns(900)}, 0, ns(10), false), (Ended{ns(80), 0b010}));
  // From place 2 on, place 1 is read at 20, 50 and 80 ns.
  EXPECT_EQ(measure({ns(500), ns(65), ns(900)}, 0, ns(10), false, 2), (Ended{ns(90), 0b010}));
  // What comes later but is read sooner ends it.
  EXPECT_EQ(measure({ns(55), ns(500), ns(51)}, 0, ns(10), false, 1), (Ended{ns(80), 0b100}));
  EXPECT_EQ(measure({ns(500), ns(61), ns(51)}, 0, ns(10), false), (Ended{ns(80), 0b010}));
  EXPECT_EQ(measure({ns(5), ns(65), ns(80)}, 0, ns(10), true), (Ended{ns(90), 0b111}));
}

TEST(WaitReady, NoPlacesTakeNoTime) {
  EXPECT_EQ(measure({}, ns(5), ns(10), false), (Ended{ns(5), 0}));
  EXPECT_EQ(measure({}, ns(5), ns(10), true), (Ended{ns(5), 0}));
}

TEST(WaitReady, CountsItsReads) {
  Rig rig = direct_link();
  const Place place{kPlaces, 4};
  rig.run(1, [](Core& core) -> Task {
    co_await core.compute(ns(35) - kFlight);
    co_await core.store(0, kPlaces, std::uint8_t{1});
  });
  rig.run(0, [&](Core& core) -> Task {
    const auto ready = [&](std::uint32_t) { return core.probe(kPlaces, 1)[0] != std::byte{0}; };
    co_await core.wait_any(std::span(&place, 1), ready, ns(10), "something", nobody);
  });
  EXPECT_EQ(rig.go(), "");
  EXPECT_EQ(rig.device(0).counters().polls, 5u);  // at 0, 10, 20, 30 and 40 ns
}

TEST(WaitReady, AHangSaysWhatIsMissing) {
  for (const bool all : {false, true}) {
    Rig rig = direct_link();
    rig.run(1, [](Core& core) -> Task { co_await core.store(0, kPlaces + 4, std::uint8_t{1}); });
    rig.run(0, [all](Core& core) -> Task {
      const Place places[] = {{kPlaces, 4}, {kPlaces + kApart, 4}};
      const auto ready = [all](std::uint32_t i) { return all && i == 0; };
      const auto writer = [](std::uint32_t i) { return "the one who writes " + std::to_string(i); };
      if (all) {
        co_await core.wait_all(places, ready, ns(10), "a token", writer);
      } else {
        co_await core.wait_any(places, ready, ns(10), "a token", writer);
      }
    });
    const std::string hang = rig.go();
    EXPECT_THAT(hang, HasSubstr("wants a token"));
    EXPECT_THAT(hang, HasSubstr(all ? "until all are ready" : "until one is ready"));
    EXPECT_THAT(hang, HasSubstr(all ? "the one who writes 1" : "the one who writes 0"));
    if (!all) {
      EXPECT_THAT(hang, HasSubstr("last writer: device 1 core 0"));
    }
  }
}

}  // namespace
}  // namespace orrery::devices
