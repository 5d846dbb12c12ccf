// Ring queues: where their slots are, and rows that go through rings of every size in their order.
#include "moe/algorithms/ring_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "moe/algorithm.h"
#include "moe/algorithms/ring_sender.h"
#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using devices::Core;
using testing::HasSubstr;

TEST(RingFamily, SlotsAndWordsAreApartAndSlotsComeRound) {
  Layout layout;
  const RingFamily family(layout, 2, 3, {5, 2}, 512);
  std::set<fabric::Address> slots;
  std::set<fabric::Address> words;
  for (std::uint32_t channel = 0; channel < 2; ++channel) {
    for (std::uint32_t ring = 0; ring < 3; ++ring) {
      for (std::uint32_t position = 0; position < 5; ++position) {
        slots.insert(family.row(channel, ring, position));
        EXPECT_EQ(family.row(channel, ring, position + 10), family.row(channel, ring, position));
      }
      for (const fabric::Address word : {family.tail(channel, ring), family.taken(channel, ring),
                                         family.head(channel, ring), family.sent(channel, ring)}) {
        EXPECT_EQ(word % 8, 0u);  // added to as 64 bits
        words.insert(word);
      }
    }
  }
  EXPECT_EQ(slots.size(), 2u * 3 * 5);
  EXPECT_EQ(words.size(), 2u * 3 * RingFamily::kWords);
  EXPECT_EQ(layout.regions()[0].bytes, 2u * 3 * 5 * 512);
}

// Device 0 sends numbered rows to device 1, which takes them one by one and keeps them.
class RingTest final : public Algorithm {
 public:
  RingTest(const Problem&, const Options& options)
      : rows_(static_cast<std::uint32_t>(options.number("rows", 1, 1000))),
        fenced_(options.flag("fenced")),
        credits_(options.flag("credits")),
        family_(layout_, 1, 1,
                {static_cast<std::uint32_t>(options.number("tokens", 1, 1000)),
                 static_cast<std::uint32_t>(options.number("chunk", 1, 1000))},
                kRowBytes),
        out_(layout_.rows(rows_, kRowBytes)),
        kept_(layout_.rows(rows_, kRowBytes)) {}

  Contract contract() const override { return {Contract::Order::kNone, 4}; }
  std::vector<std::string> operations() const override { return {"ring"}; }
  const Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override { return rows_ * 8; }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }
  void set_up(devices::DeviceProcess& device) override {
    device.memory().store(family_.sent(0, 0), std::uint64_t{0});
    device.memory().store(family_.taken(0, 0), std::uint64_t{0});
  }
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override {
    for (std::uint32_t row = 0; device.rank() == 0 && row < rows_; ++row) {
      for (std::uint64_t at = 0; at < kRowBytes; at += 4) {
        device.memory().store(out_ + row * kRowBytes + at, number(iteration, row));
      }
    }
  }
  emu::Task program(Core& core, std::uint32_t, std::uint32_t) override {
    if (core.rank() == 0) return send(core);
    return core.rank() == 1 ? receive(core) : idle(core);
  }
  Verdict verify(devices::DeviceProcess& device, std::uint32_t, std::uint32_t iteration) override {
    Verdict verdict;
    for (std::uint32_t row = 0; device.rank() == 1 && row < rows_; ++row) {
      for (std::uint64_t at = 0; at < kRowBytes; at += 4) {
        const auto found = device.memory().load<std::uint32_t>(kept_ + row * kRowBytes + at);
        if (found == number(iteration, row)) continue;
        verdict.ok = false;
        verdict.what = "row " + std::to_string(row) + " is another one";
      }
    }
    return verdict;
  }

 private:
  static constexpr std::uint64_t kRowBytes = 1024;
  std::uint32_t number(std::uint32_t iteration, std::uint32_t row) const {
    return 1 + iteration * rows_ + row;
  }
  static emu::Task idle(Core&) { co_return; }

  emu::Task send(Core& core) {
    std::vector<fabric::Address> rows;
    for (std::uint32_t row = 0; row < rows_; ++row) rows.push_back(out_ + row * kRowBytes);
    std::vector<RingSender::Stream> streams;
    streams.push_back({SendRing(core, family_, 0, 0, 1, 0), std::move(rows)});
    std::vector<std::unique_ptr<Role>> roles;
    roles.push_back(std::make_unique<RingSender>(
        std::move(streams), std::uint32_t{kRowBytes}, [this](Core& each) { return order(each); },
        RingSender::Fault::kNone));
    co_await run_roles(core, roles);
  }
  emu::Task order(Core& core) const {
    if (fenced_) co_await core.fence();
  }

  emu::Task receive(Core& core) {
    ReceiveRing ring(core, family_, 0, 0, 0, 0);
    for (std::uint32_t row = 0; row < rows_; ++row) {
      co_await ring.wait_filled(core, 1);
      core.accept(ring.row(0), kRowBytes);
      co_await core.copy(kept_ + row * kRowBytes, ring.row(0), kRowBytes);
      ring.take(1);
      if (credits_) co_await ring.credit(core, row + 1 == rows_, ring.chunk());
    }
    ring.save(core);
    co_await core.quiet();  // no credit of the next call may count in place of the last one
  }

  const std::uint32_t rows_;
  const bool fenced_;
  const bool credits_;
  Layout layout_;
  const RingFamily family_;
  const fabric::Address out_;
  const fabric::Address kept_;
};

ORRERY_ALGORITHM(ring_test, "test-ring", "for a test", RingTest,
                 {{"rows", "17", "", {}},
                  {"tokens", "4", "", {}},
                  {"chunk", "2", "", {}},
                  {"fenced", "true", "", {"true", "false"}},
                  {"credits", "true", "", {"true", "false"}}})

RunConfig ring(std::uint32_t tokens, std::uint32_t chunk, const Settings& more = {}) {
  RunConfig config = small_run("test-ring", 2, 1, make_workload(2, 1, 1));
  config.machine.mutable_fabric()->set_order_scope(fabric::Fabric::NONE);
  config.settings = more;
  config.settings.emplace_back("algorithm.tokens", std::to_string(tokens));
  config.settings.emplace_back("algorithm.chunk", std::to_string(chunk));
  return config;
}

std::string findings_of(RunConfig config) {
  config.check = true;
  const Result result = run_alone(config).result;
  std::string text;
  for (const auto& each : result.check().findings()) text += each.text() + "\n";
  return text;
}

TEST(RingQueue, T20_RowsKeepTheirOrderInRingsOfEverySize) {
  for (const auto& [tokens, chunk] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 1}, {2, 2}, {3, 2}, {5, 3}, {4, 1}, {17, 17}, {64, 5}}) {
    SCOPED_TRACE(std::to_string(tokens) + " by " + std::to_string(chunk));
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      RunConfig config = ring(tokens, chunk);
      config.adversary = true;
      config.seed = seed;
      good_run(config);
    }
    EXPECT_EQ(findings_of(ring(tokens, chunk)), "");
  }
}

// One put per chunk and its tail, and a credit for each.
TEST(RingQueue, PutsChunksAndTellsOfEach) {
  RunConfig config = ring(4, 2);
  config.iterations = 1;
  const auto counters = good_run(config).counters();
  EXPECT_EQ(counters.at("puts"), 9);  // 17 rows, two by two
  EXPECT_EQ(counters.at("atomics"), 9 + 9);
}

TEST(RingQueue, TailsWithoutAFenceOvertakeTheirRows) {
  RunConfig config = ring(4, 2, {{"algorithm.fenced", "false"}});
  EXPECT_THAT(findings_of(config), HasSubstr("accept by device 1"));
  config.adversary = true;
  int caught = 0;
  for (config.seed = 1; config.seed <= 8; ++config.seed) caught += is_caught(config) ? 1 : 0;
  EXPECT_GE(caught, 6);
}

TEST(RingQueue, ASenderWithoutCreditsHangsAndSaysWhoOwesThem) {
  const std::string hang = run_alone(ring(4, 2, {{"algorithm.credits", "false"}})).hang;
  EXPECT_THAT(hang, HasSubstr("rows or room in a ring"));
  EXPECT_THAT(hang, HasSubstr("expected writer: device 1 (takes rows from its ring, channel 0)"));
  EXPECT_THAT(hang, HasSubstr("expected writer: device 0 (puts rows into the ring it has here"));
}

}  // namespace
}  // namespace orrery::moe
