// Events and payloads between processes: nothing lost, nothing changed, in order, and never a
// deadlock (ctest bounds each run).
#include "emu/exchange.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emu/errors.h"
#include "tests/emu/mpi/hostile_transport.h"
#include "tests/emu/mpi/mpi_test.h"

namespace orrery::emu {
namespace {

/// SplitMix64: the same traffic on sender and receiver.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

struct Body {
  std::uint64_t window;
  std::uint64_t index;  // of all records from this source, events and payloads
  std::uint64_t check;
};

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::uint64_t word = random.next();
    const std::size_t part = std::min(sizeof(word), bytes.size() - at);
    std::memcpy(bytes.data() + at, &word, part);
    at += part;
  }
}

std::uint64_t content_seed(int source, int target, std::uint64_t index) {
  return (static_cast<std::uint64_t>(source) << 48) ^ (static_cast<std::uint64_t>(target) << 40) ^
         index;
}

/// Replays each source's stream of records and compares.
class Checker : public ExchangeSink {
 public:
  explicit Checker(const ProcessGroup& processes)
      : rank_(processes.rank()),
        records(static_cast<std::size_t>(processes.size())),
        payloads(static_cast<std::size_t>(processes.size())) {}

  void on_event(const Event& event) override {
    const int source = static_cast<int>(sender_of(event.order));
    const std::uint64_t index = records.at(static_cast<std::size_t>(source))++;
    const auto& body = event.as<Body>();
    wrong += body.index != index || body.check != content_seed(source, rank_, index) ||
                     event.target != static_cast<LpId>(rank_) ||
                     event.time != static_cast<Time>(index)
                 ? 1
                 : 0;
    last_window = std::max(last_window, body.window);
  }
  void on_payload(int source, std::uint64_t number, std::span<const std::byte> bytes) override {
    const auto at = static_cast<std::size_t>(source);
    const std::uint64_t index = records.at(at)++;
    wrong += number != payloads[at]++ ? 1 : 0;
    expected_.resize(bytes.size());
    fill(expected_, content_seed(source, rank_, index) + bytes.size());
    wrong += std::equal(bytes.begin(), bytes.end(), expected_.begin()) ? 0 : 1;
    payload_bytes += bytes.size();
  }

 private:
  int rank_;
  std::vector<std::byte> expected_;

 public:
  std::vector<std::uint64_t> records;
  std::vector<std::uint64_t> payloads;
  std::uint64_t payload_bytes = 0;
  std::uint64_t wrong = 0;
  std::uint64_t last_window = 0;
};

/// Parameter: over a hostile transport?
class ExchangeTest : public MpiTest, public testing::WithParamInterface<bool> {
 protected:
  static std::unique_ptr<Transport> make() {
    auto transport = MpiTest::make();
    if (!GetParam()) return transport;
    return std::make_unique<HostileTransport>(std::move(transport),
                                              1 + static_cast<unsigned>(rank()));
  }

  /// Sends checkable records and remembers how many.
  struct Sender {
    explicit Sender(Exchange& to) : exchange(to), records(static_cast<std::size_t>(size())) {}

    void event(int process, std::uint64_t window) {
      const std::uint64_t index = records[static_cast<std::size_t>(process)]++;
      Event& event = exchange.send_event(process);
      event.time = static_cast<Time>(index);
      event.order = make_order(static_cast<LpId>(rank()), index);
      event.target = static_cast<LpId>(process);
      event.kind = 7;
      event.as<Body>() = {window, index, content_seed(rank(), process, index)};
    }
    void payload(int process, std::size_t bytes) {
      const std::uint64_t index = records[static_cast<std::size_t>(process)]++;
      buffer.resize(bytes);
      fill(buffer, content_seed(rank(), process, index) + bytes);
      exchange.send_payload(process, buffer);
      std::fill(buffer.begin(), buffer.end(), std::byte{0xdd});  // it was copied
    }

    Exchange& exchange;
    std::vector<std::uint64_t> records;
    std::vector<std::byte> buffer;
  };

  static std::int64_t close(Exchange& exchange, std::int64_t value = 0) {
    exchange.close_window({&value, 1});
    return value;
  }

  /// After close_window: all that every peer has sent so far has been received, whatever they sent
  /// after.
  static void expect_all_received(const Sender& sender, const Checker& checker) {
    const auto all = processes().all_gather(std::as_bytes(std::span(sender.records)));
    for (std::size_t source = 0; source < all.size(); ++source) {
      if (static_cast<int>(source) == rank()) continue;
      std::uint64_t sent = 0;
      std::memcpy(&sent, all[source].data() + static_cast<std::size_t>(rank()) * 8, 8);
      EXPECT_EQ(checker.records[source], sent) << "from process " << source;
    }
    EXPECT_EQ(checker.wrong, 0u);
  }
};

TEST_P(ExchangeTest, EmptyWindowsReduce) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker);
  for (int window = 0; window < 100; ++window) {
    std::int64_t values[2] = {window + rank(), -rank()};
    exchange.close_window(values);
    EXPECT_EQ(values[0], window);
    EXPECT_EQ(values[1], -(size() - 1));
  }
  EXPECT_EQ(checker.payload_bytes, 0u);
}

TEST_P(ExchangeTest, NoWayToItselfOrOutside) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker);
  EXPECT_THROW(exchange.send_event(rank()), InvariantError);
  EXPECT_THROW(exchange.send_event(size()), InvariantError);
  EXPECT_THROW(exchange.send_payload(-1, {}), InvariantError);
  close(exchange);
}

// What a window sent is there when it closes: a flush too few or the wrong tail loses the last of
// it.
TEST_P(ExchangeTest, EachWindowIsCompleteWhenItCloses) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker);
  Sender sender(exchange);
  Random random(17);  // the same on all processes: everyone knows what everyone sends
  std::vector<std::uint64_t> expected(static_cast<std::size_t>(size()));
  std::size_t missing = 0;
  for (std::uint64_t window = 0; window < 400; ++window) {
    for (int source = 0; source < size(); ++source) {
      for (int target = 0; target < size(); ++target) {
        if (source == target) continue;
        // Often nothing at all, so that stale tails of both parities are met.
        const auto events = random.below(3);
        if (target == rank()) expected[static_cast<std::size_t>(source)] += events;
        for (std::uint64_t i = 0; source == rank() && i < events; ++i) sender.event(target, window);
      }
    }
    close(exchange);
    for (std::size_t source = 0; source < expected.size(); ++source) {
      missing += checker.records[source] < expected[source] ? 1 : 0;
    }
    // Nobody can be more than one window ahead.
    EXPECT_LE(checker.last_window, window + 1);
  }
  EXPECT_EQ(missing, 0u);
  close(exchange);
  expect_all_received(sender, checker);
}

TEST_P(ExchangeTest, RandomTrafficOfAllSizes) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker);
  Sender sender(exchange);
  Random random(static_cast<std::uint64_t>(rank()) + 1);
  for (std::uint64_t window = 0; size() > 1 && window < 30; ++window) {
    for (std::uint64_t i = random.below(60); i > 0; --i) {
      const int to = static_cast<int>((static_cast<std::uint64_t>(rank()) + 1 +
                                       random.below(static_cast<std::uint64_t>(size() - 1))) %
                                      static_cast<std::uint64_t>(size()));
      switch (random.below(4)) {
        case 0:
          sender.payload(to, random.below(40));
          break;
        case 1:
          sender.payload(to, random.below(Exchange::kMaxPayloadBytes + 1));
          break;
        default:
          sender.event(to, window);
      }
      if (i % 16 == 0) exchange.poll();
    }
    close(exchange);
  }
  sender.records[static_cast<std::size_t>(rank())] = 0;
  close(exchange);
  expect_all_received(sender, checker);
}

// Everyone sends many times its rings to everyone at once.
TEST_P(ExchangeTest, TinyRingsAllToAll) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker, 1);  // raised to the smallest there is
  Sender sender(exchange);
  const std::size_t total = std::size_t{24} << 20;
  for (std::uint64_t window = 0; window < 3; ++window) {
    for (std::size_t sent = 0; size() > 1 && sent < total / 3; sent += Exchange::kMaxPayloadBytes) {
      const int to = static_cast<int>(sent / Exchange::kMaxPayloadBytes) % size();
      if (to == rank()) continue;
      sender.payload(to, Exchange::kMaxPayloadBytes - sent % 1024 - 3);
      sender.event(to, window);
    }
    close(exchange);
  }
  close(exchange);
  expect_all_received(sender, checker);
}

// One process has a hundred times the work of the others, which only wait in the reduction.
TEST_P(ExchangeTest, OneSendsAHundredTimesMore) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker, 1);
  Sender sender(exchange);
  for (std::uint64_t window = 0; window < 4; ++window) {
    const int heavy = static_cast<int>(window) % size();
    const std::uint64_t records = rank() == heavy ? 800 : 8;
    for (std::uint64_t i = 0; i < records; ++i) {
      const int to = static_cast<int>((static_cast<std::uint64_t>(rank()) + 1 + i) %
                                      static_cast<std::uint64_t>(size()));
      if (to == rank()) continue;
      sender.event(to, window);
      sender.payload(to, 14'336);
    }
    close(exchange);
  }
  close(exchange);
  expect_all_received(sender, checker);
}

// All send to one: incast.
TEST_P(ExchangeTest, AllSendToOne) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker, 1);
  Sender sender(exchange);
  for (int i = 0; rank() != 0 && i < 300; ++i) sender.payload(0, 30'000);
  close(exchange);
  close(exchange);
  expect_all_received(sender, checker);
}

// Records that end exactly at a ring's end, and pads of every length.
TEST_P(ExchangeTest, RecordsOfAllLengthsAroundTheEndOfTheRing) {
  const auto transport = make();
  Checker checker(processes());
  Exchange exchange(processes(), *transport, checker, 1);
  Sender sender(exchange);
  const int to = (rank() + 1) % size();
  for (std::size_t step = 0; size() > 1 && step < 40; ++step) {
    for (std::size_t i = 0; i < 9; ++i) sender.payload(to, 32'000 + 8 * step + i % 3);
    close(exchange);
  }
  close(exchange);
  expect_all_received(sender, checker);
}

INSTANTIATE_TEST_SUITE_P(Over, ExchangeTest, testing::Bool(), [](const auto& hostile) {
  return hostile.param ? "AHostileTransport" : "TheTransport";
});

}  // namespace
}  // namespace orrery::emu
