// The hang report (R6): who waits for what, what is there, who wrote it last, who was expected to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr fabric::Address kFlag = 0x200000;

TEST(Hang, NamesCoreAddressValuesAndWriters) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.store(1, kFlag + 64, std::uint32_t{0x11}); });
  rig.run(
      1,
      [](Core& core) -> Task {
        if (core.index() == 0) co_return;
        const auto writer = [](std::uint32_t slot) {
          return "device 0, part " + std::to_string(slot);
        };
        co_await core.wait_until(Slots{kFlag, 4, 64, 3, 0b001}, word_equals(0x22), writer);
      },
      2);
  const std::string report = rig.go();
  EXPECT_THAT(report, StartsWith("hang: no event is left after "));
  EXPECT_THAT(
      report,
      HasSubstr("device 1 core 1 (kernel, iteration 0): polls address 0x200040 (slot 1 of 3): "
                "holds 0x11, wants word equal to 0x22; last writer: device 0 core 0 at 2.101 us; "
                "expected writer: device 0, part 1; 1 more slots are missing"));
  EXPECT_THAT(report, Not(HasSubstr("core 0 (operation")));
}

TEST(Hang, NobodyEverWroteIt) {
  Rig rig(machine("tiny"), 1);
  rig.run(0, [](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_at_least(3), nobody);
  });
  EXPECT_THAT(rig.go(), AllOf(HasSubstr("holds 0x0, wants word of at least 0x3"),
                              HasSubstr("last writer: none; expected writer: nobody")));
}

TEST(Hang, ACoreThatLeftBeforeTheBarrier) {
  Rig rig(machine("tiny"), 1);
  rig.run(
      0,
      [](Core& core) -> Task {
        if (core.index() != 1) co_await core.barrier();
      },
      3);
  const std::string report = rig.go();
  EXPECT_THAT(
      report,
      HasSubstr(
          "device 0 core 0 (kernel, iteration 0): waits in the core barrier with 2 of 3 cores"));
  EXPECT_THAT(report, HasSubstr("device 0 core 2 "));
  EXPECT_THAT(report, Not(HasSubstr("core 1 (")));
}

// What a core writes to its own device without a verb wakes nobody: that must not look like
// success.
TEST(Hang, APollOverWhatTheDeviceItselfWrote) {
  Rig rig(machine("tiny"), 1);
  rig.run(
      0,
      [](Core& core) -> Task {
        if (core.index() == 0) {
          co_await core.compute(ns(100));
          core.memory().store(kFlag, std::uint32_t{1});
        } else {
          co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
        }
      },
      2);
  EXPECT_THAT(
      rig.go(),
      HasSubstr(
          "device 0 core 1 (kernel, iteration 0): polls address 0x200000, which holds what it "
          "wants; only what arrives through the fabric wakes a poll"));
}

TEST(Hang, NoneWhenAllEnd) {
  Rig rig(machine("tiny"), 2);
  rig.run(0, [](Core& core) -> Task { co_await core.store(1, kFlag, std::uint32_t{1}); });
  rig.run(1, [](Core& core) -> Task {
    co_await core.wait_until(word_at(kFlag), word_equals(1), nobody);
  });
  EXPECT_EQ(rig.go(), "");
}

// Two cores that keep each other busy for ever: only the limit on virtual time ends that.
TEST(Hang, PastTheLimitOfVirtualTime) {
  const emu::ProcessGroup processes;
  const Machine tiny = machine("tiny");
  ClusterOptions options;
  options.ranks = 1;
  options.memory_bytes = 1 << 22;
  options.limit = ns(100'000);
  Cluster cluster(processes, nullptr, tiny, "test", options);
  const auto stream = [](DeviceProcess& device) -> Task {
    auto kernel = device.kernel(0, 0, 1, [](Core& core) -> Task {
      for (;;) co_await core.compute(ns(10));
    });
    co_await kernel;
  };
  cluster.device(0).start_stream(stream(cluster.device(0)), 0);
  EXPECT_THAT(cluster.run(), AllOf(StartsWith("hang: virtual time passed 100.000 us\n"),
                                   HasSubstr("device 0 core 0")));
}

}  // namespace
}  // namespace orrery::devices
