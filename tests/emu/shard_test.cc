#include "emu/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "emu/engine.h"
#include "emu/errors.h"
#include "emu/random.h"

namespace orrery::emu {
namespace {

constexpr Time kLatency = 100;

// Sends what it gets on: to itself soon, or to another one, with payload, a latency later. Adds up
// the payload it saw.
class Relay final : public LogicalProcess {
 public:
  struct Body {
    std::uint64_t payload;
    std::uint32_t bytes;
    std::uint32_t hops;
  };

  Relay(Engine& engine, LpId self, LpId lps, Time latency = kLatency)
      : shard_(engine.shard_of(self)), self_(self), lps_(lps), latency_(latency) {}

  void send(LpId to, Time time, std::uint32_t hops) {
    std::vector<std::byte> bytes(1 + hash(hops) % 900, static_cast<std::byte>(hops));
    const std::uint64_t payload = shard_.send_payload(to, bytes);
    shard_.schedule(self_, to, time, hops).as<Body>() = {
        payload, static_cast<std::uint32_t>(bytes.size()), hops};
  }

  void handle(const Event& event) override {
    const auto& body = event.as<Body>();
    Buffer* buffer = shard_.take_payload(sender_of(event.order), body.payload);
    for (std::uint32_t i = 0; i < body.bytes; ++i) {
      sum_ = sum_ * 31 + static_cast<std::uint64_t>(buffer->bytes()[i]) + body.bytes;
    }
    shard_.buffers().release(buffer);
    if (body.hops == 0) return;
    const std::uint64_t draw = hash(event.order ^ static_cast<std::uint64_t>(event.time));
    if (draw % 3 == 0) {
      send(self_, shard_.now() + static_cast<Time>(draw / 3 % 40), body.hops - 1);
    } else {
      send(static_cast<LpId>(draw / 3 % lps_), shard_.now() + latency_ + draw % 7, body.hops - 1);
    }
  }

  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t hash(std::uint64_t value) const { return combine64(value, self_); }

  Shard& shard_;
  LpId self_;
  LpId lps_;
  Time latency_;
  std::uint64_t sum_ = 0;
};

struct Ran {
  std::vector<std::uint64_t> digests;
  std::vector<std::uint64_t> sums;
  std::uint64_t executed;
  Time now;
  bool operator==(const Ran&) const = default;
};

Ran run(Parallelism parallelism, Time limit = kNever) {
  constexpr LpId kLps = 13;
  ProcessGroup processes;
  Engine engine(processes, nullptr, kLps, parallelism);
  std::vector<std::unique_ptr<Relay>> relays;
  for (LpId lp = 0; lp < kLps; ++lp) {
    engine.place(lp, 0, static_cast<int>(lp) * parallelism.shards / static_cast<int>(kLps));
  }
  for (LpId lp = 0; lp < kLps; ++lp) {
    relays.push_back(std::make_unique<Relay>(engine, lp, kLps));
    engine.attach(lp, relays.back().get());
  }
  engine.set_lookahead(kLatency);
  engine.set_limit(limit);
  for (LpId lp = 0; lp < kLps; ++lp) {
    for (std::uint32_t n = 0; n < 20; ++n) relays[lp]->send(lp, n * 17, 60);
  }
  Ran ran;
  EXPECT_EQ(engine.run(), limit == kNever ? Engine::Outcome::kQuiescent : Engine::Outcome::kLimit);
  for (LpId lp = 0; lp < kLps; ++lp) {
    ran.digests.push_back(engine.digest_of(lp));
    ran.sums.push_back(relays[lp]->sum());
  }
  ran.executed = engine.executed();
  ran.now = engine.now();
  return ran;
}

class Shards : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Shards, ExecuteWhatOneQueueDoes) {
  const auto [shards, threads] = GetParam();
  static const Ran reference = run({});
  EXPECT_EQ(reference.executed, 13u * 20u * 61u);
  EXPECT_EQ(run({shards, threads}), reference);
}

TEST_P(Shards, StopAtTheLimit) {
  const auto [shards, threads] = GetParam();
  static const Ran reference = run({}, 1500);
  EXPECT_LT(reference.now, 1500);
  EXPECT_EQ(run({shards, threads}, 1500), reference);
}

INSTANTIATE_TEST_SUITE_P(All, Shards,
                         testing::Combine(testing::Values(1, 2, 3, 7, 13),
                                          testing::Values(1, 2, 4)));

// One logical process in each of two shards.
class TwoShards : public testing::TestWithParam<int> {
 protected:
  TwoShards() {
    engine.place(1, 0, 1);
    engine.set_lookahead(kLatency);
  }
  ProcessGroup processes;
  Engine engine{processes, nullptr, 2, {2, GetParam()}};
};

class Reacts final : public LogicalProcess {
 public:
  void handle(const Event& event) override { react(event); }
  std::function<void(const Event&)> react = [](const Event&) {};
};

TEST_P(TwoShards, RefuseWhatComesBelowTheLookahead) {
  Reacts first;
  Reacts second;
  first.react = [this](const Event&) {
    engine.shard_of(0).schedule(0, 1, engine.shard_of(0).now() + kLatency - 1, 0);
  };
  engine.attach(0, &first);
  engine.attach(1, &second);
  engine.schedule(0, 0, 5, 0);
  EXPECT_THROW(engine.run(), InvariantError);
}

TEST_P(TwoShards, HandOnWhatALogicalProcessThrows) {
  Reacts first;
  Reacts second;
  second.react = [](const Event&) { throw ConfigError("here", "field", "value", "another"); };
  engine.attach(0, &first);
  engine.attach(1, &second);
  engine.schedule(0, 1, kLatency, 0);
  EXPECT_THROW(engine.run(), ConfigError);
}

// Between windows, at the same point for all; and never twice.
TEST_P(TwoShards, ReachMilestones) {
  Reacts first;
  Reacts second;
  std::vector<std::int64_t> reached;
  engine.set_milestones([&](std::int64_t milestone) { reached.push_back(milestone); });
  first.react = [this](const Event& event) {
    engine.announce(event.kind);
    if (event.kind < 3) {
      engine.shard_of(0).schedule(0, 0, event.time + 10 * kLatency, event.kind + 1);
    }
  };
  engine.attach(0, &first);
  engine.attach(1, &second);
  engine.schedule(0, 0, 0, 1);
  engine.run();
  EXPECT_EQ(reached, (std::vector<std::int64_t>{1, 2, 3}));
}

// What one sends, the other releases: buffers go home, or a long run would eat the host.
TEST_P(TwoShards, BuffersGoHome) {
  Reacts first;
  Reacts second;
  const std::vector<std::byte> bytes(4096, std::byte{1});
  Shard& from = engine.shard_of(0);
  Shard& to = engine.shard_of(1);
  first.react = [&](const Event& event) {
    from.schedule(0, 1, from.now() + kLatency, 0).as<std::uint64_t>() = from.send_payload(1, bytes);
    if (event.kind > 0) from.schedule(0, 0, from.now() + kLatency, event.kind - 1);
  };
  second.react = [&](const Event& event) {
    to.buffers().release(to.take_payload(0, event.as<std::uint64_t>()));
  };
  engine.attach(0, &first);
  engine.attach(1, &second);
  engine.schedule(0, 0, 0, 10'000);
  engine.run();
  EXPECT_LE(from.buffers().bytes_reserved() + to.buffers().bytes_reserved(), 4u << 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, TwoShards, testing::Values(1, 2));

}  // namespace
}  // namespace orrery::emu
