#include "emu/engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "emu/errors.h"

namespace orrery::emu {
namespace {

struct Executed {
  Time time;
  LpId sender;
  LpId target;
  std::uint32_t kind;
  bool operator==(const Executed&) const = default;
};

class Actor final : public LogicalProcess {
 public:
  void handle(const Event& event) override {
    if (log != nullptr)
      log->push_back({event.time, sender_of(event.order), event.target, event.kind});
    if (react) react(event);
  }
  std::function<void(const Event&)> react;
  std::vector<Executed>* log = nullptr;
};

class EngineTest : public testing::Test {
 protected:
  static constexpr LpId kLps = 4;
  EngineTest() : engine(processes, nullptr, kLps), actors(kLps) {
    for (LpId lp = 0; lp < kLps; ++lp) {
      actors[lp].log = &log;
      engine.attach(lp, &actors[lp]);
    }
  }
  ProcessGroup processes;
  Engine engine;
  std::vector<Actor> actors;
  std::vector<Executed> log;
};

TEST_F(EngineTest, ExecutesByTimeSenderAndSequence) {
  engine.schedule(3, 0, 10, 1);
  engine.schedule(1, 0, 10, 2);
  engine.schedule(1, 0, 10, 3);
  engine.schedule(0, 2, 5, 4);
  engine.schedule(2, 1, 10, 5);
  EXPECT_EQ(engine.run(), Engine::Outcome::kQuiescent);
  EXPECT_EQ(log, (std::vector<Executed>{
                     {5, 0, 2, 4}, {10, 1, 0, 2}, {10, 1, 0, 3}, {10, 2, 1, 5}, {10, 3, 0, 1}}));
  EXPECT_EQ(engine.executed(), 5u);
  EXPECT_EQ(engine.now(), 10);
}

TEST_F(EngineTest, EventsOfTheSameTimeRunAfterTheirCause) {
  actors[0].react = [this](const Event& event) {
    if (event.kind < 3) engine.schedule(0, 0, engine.now(), event.kind + 1);
  };
  engine.schedule(0, 0, 7, 0);
  engine.run();
  EXPECT_EQ(log.size(), 4u);
  for (const Executed& each : log) EXPECT_EQ(each.time, 7);
}

TEST_F(EngineTest, RefusesThePast) {
  actors[0].react = [this](const Event&) { engine.schedule(0, 1, engine.now() - 1, 0); };
  engine.schedule(0, 0, 7, 0);
  EXPECT_THROW(engine.run(), InvariantError);
}

TEST_F(EngineTest, StopsAtItsLimit) {
  actors[0].react = [this](const Event&) { engine.schedule(0, 0, engine.now() + 10, 0); };
  engine.schedule(0, 0, 0, 0);
  engine.set_limit(100);
  EXPECT_EQ(engine.run(), Engine::Outcome::kLimit);
  EXPECT_EQ(log.size(), 10u);  // 0, 10, … 90
  EXPECT_LT(engine.now(), 100);
}

TEST_F(EngineTest, MayRunAgain) {
  engine.schedule(0, 1, 5, 0);
  engine.run();
  engine.schedule(1, 2, 9, 0);
  EXPECT_EQ(engine.run(), Engine::Outcome::kQuiescent);
  EXPECT_EQ(log.size(), 2u);
}

TEST_F(EngineTest, CarriesPayload) {
  const std::vector<std::byte> bytes(1000, std::byte{7});
  engine.schedule(0, 1, 5, 0).as<std::uint64_t>() = engine.shard_of(0).send_payload(1, bytes);
  bool equal = false;
  actors[1].react = [&](const Event& event) {
    auto* buffer = engine.shard_of(1).take_payload(0, event.as<std::uint64_t>());
    equal = std::equal(bytes.begin(), bytes.end(), buffer->bytes());
  };
  engine.run();
  EXPECT_TRUE(equal);
}

// The digest is a function of what each logical process executed, not of the order in which events
// were put into the queue.
TEST(EngineDigest, IndependentOfInsertionHistory) {
  const auto digests = [](const std::vector<int>& order, Time shift) {
    ProcessGroup processes;
    Engine engine(processes, nullptr, 3);
    std::vector<Actor> actors(3);
    for (LpId lp = 0; lp < 3; ++lp) engine.attach(lp, &actors[lp]);
    for (const int sender : order) {
      engine.schedule(static_cast<LpId>(sender), 0, 10 + shift, 0);
      engine.schedule(static_cast<LpId>(sender), 1, 10, 0);
    }
    engine.run();
    return std::vector<std::uint64_t>{engine.digest_of(0), engine.digest_of(1),
                                      engine.digest_of(2)};
  };
  EXPECT_EQ(digests({0, 1, 2}, 0), digests({2, 0, 1}, 0));
  EXPECT_NE(digests({0, 1, 2}, 0)[0], digests({0, 1, 2}, 1)[0]);
  EXPECT_EQ(digests({0, 1, 2}, 0)[1], digests({0, 1, 2}, 1)[1]);
  EXPECT_NE(digests({0, 1, 2}, 0)[0], digests({0, 1}, 0)[0]);
  EXPECT_NE(digests({0, 1}, 0)[0], digests({0, 2}, 0)[0]);  // the same times, another sender
  EXPECT_EQ(digests({0, 1, 2}, 0)[2], 0u);                  // executed nothing
}

// Engines keep no globals: two live side by side.
TEST(EngineDigest, TwoEnginesDoNotMeet) {
  ProcessGroup processes;
  Engine first(processes, nullptr, 1);
  Engine second(processes, nullptr, 1);
  Actor actor;
  first.attach(0, &actor);
  second.attach(0, &actor);
  first.schedule(0, 0, 5, 0);
  second.schedule(0, 0, 5, 0);
  first.run();
  EXPECT_EQ(second.executed(), 0u);
  second.run();
  EXPECT_EQ(first.digest_of(0), second.digest_of(0));
}

}  // namespace
}  // namespace orrery::emu
