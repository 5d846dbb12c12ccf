#include "emu/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "emu/random.h"

namespace orrery::emu {
namespace {

using Key = std::tuple<Time, EventOrder>;

Key pop(EventQueue& queue) {
  std::uint32_t slot;
  const Event& event = queue.pop(slot);
  const Key key{event.time, event.order};
  queue.release(slot);
  return key;
}

TEST(EventQueue, Empty) {
  EventQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.min_time(), kNever);
}

TEST(EventQueue, OrdersByTimeThenSenderThenSequence) {
  EventQueue queue;
  queue.push(20, make_order(0, 5), 1, 0);
  queue.push(10, make_order(7, 0), 2, 0);
  queue.push(10, make_order(3, 9), 3, 0);
  queue.push(10, make_order(3, 8), 4, 0);
  queue.push(20, make_order(0, 4), 5, 0);
  std::vector<LpId> targets;
  while (!queue.empty()) {
    std::uint32_t slot;
    targets.push_back(queue.pop(slot).target);
    queue.release(slot);
  }
  EXPECT_EQ(targets, (std::vector<LpId>{4, 3, 2, 5, 1}));
}

TEST(EventQueue, SendersAndSequencesKeepApart) {
  EXPECT_EQ(sender_of(make_order(1'048'575, 17)), 1'048'575u);
  EXPECT_LT(make_order(3, (std::uint64_t{1} << kSequenceBits) - 1), make_order(4, 0));
}

TEST(EventQueue, EqualsASortUnderRandomPushesAndPops) {
  RandomStream random(11, 0, "event queue");
  for (int round = 0; round < 20; ++round) {
    EventQueue queue;
    std::vector<Key> reference;
    for (int step = 0; step < 3000; ++step) {
      if (reference.empty() || random.below(5) < 3) {
        const auto time = static_cast<Time>(random.below(50));
        const EventOrder order =
            make_order(static_cast<LpId>(random.below(4)), static_cast<std::uint64_t>(step));
        queue.push(time, order, 0, 0);
        reference.emplace_back(time, order);
        std::ranges::sort(reference, std::greater<>());
      } else {
        EXPECT_EQ(queue.min_time(), std::get<0>(reference.back()));
        ASSERT_EQ(pop(queue), reference.back());
        reference.pop_back();
      }
      ASSERT_EQ(queue.size(), reference.size());
    }
  }
}

TEST(EventQueue, BodiesStayWithTheirKeys) {
  EventQueue queue;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    queue.push(static_cast<Time>(mix64(i) % 1000), make_order(1, i), 0, 0).as<std::uint64_t>() = i;
  }
  for (int i = 0; i < 5000; ++i) {
    std::uint32_t slot;
    const Event& event = queue.pop(slot);
    EXPECT_EQ(make_order(1, event.as<std::uint64_t>()), event.order);
    queue.release(slot);
  }
}

TEST(EventQueue, APoppedEventStaysUntilItIsReleased) {
  EventQueue queue;
  queue.push(1, 1, 0, 0).as<int>() = 41;
  std::uint32_t slot;
  const Event& event = queue.pop(slot);
  for (std::uint64_t i = 0; i < 5000; ++i) queue.push(2, i, 0, 0).as<int>() = 0;
  EXPECT_EQ(event.as<int>(), 41);
  queue.release(slot);
}

TEST(EventQueue, PushCopyKeepsKindTargetAndBody) {
  EventQueue queue;
  Event event{};
  event.time = 5;
  event.order = make_order(2, 3);
  event.target = 9;
  event.kind = 4;
  event.as<std::uint64_t>() = 77;
  queue.push_copy(event);
  std::uint32_t slot;
  const Event& got = queue.pop(slot);
  EXPECT_EQ(got.time, 5);
  EXPECT_EQ(got.order, make_order(2, 3));
  EXPECT_EQ(got.target, 9u);
  EXPECT_EQ(got.kind, 4u);
  EXPECT_EQ(got.as<std::uint64_t>(), 77u);
}

}  // namespace
}  // namespace orrery::emu
