#include "fabric/visibility.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "emu/random.h"
#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using emu::Time;

constexpr std::uint32_t kBlock = 64;
constexpr std::uint32_t kPacketBytes = 256;
constexpr NodeId kDestination = 2;  // 0 and 1 send

struct Seen {
  Time time;
  NodeId source;
  std::uint32_t put;
  Address address;
  std::uint32_t bytes;
  bool operator==(const Seen&) const = default;
};

// The destination of packets that tests let arrive by hand.
class Destination final : public emu::LogicalProcess, public VisibilitySink {
 public:
  explicit Destination(const Fabric& fabric, const Adversary& adversary = {})
      : fabric_(fabric),
        engine_(processes_, nullptr, 3),
        memory_(kMemoryBytes),
        visibility_(engine_, fabric_, memory_, *this, kDestination, 2, 4, adversary) {
    engine_.attach(kDestination, this);
  }

  // A packet of put `sequence` of a channel arrives at `time`: bytes [offset, offset + bytes) of
  // put_bytes, to `to` + offset, all of value `value`.
  struct Arrival {
    Time time;
    std::uint32_t sequence;
    Address to;
    std::uint32_t offset;
    std::uint32_t bytes;
    std::uint32_t put_bytes;
    std::uint8_t value = 1;
    NodeId source = 0;
    std::uint16_t channel = 0;
    PacketKind kind = PacketKind::kPut;
    bool signal = false;
    std::uint16_t epoch = 0;
  };
  void arrive(const Arrival& arrival) {
    std::vector<std::byte> bytes(arrival.bytes, std::byte{arrival.value});
    const std::uint64_t payload = engine_.shard_of(kDestination).send_payload(kDestination, bytes);
    Packet& packet =
        engine_.schedule(arrival.source, kDestination, arrival.time, kDelivery).as<Packet>();
    packet = Packet{};
    packet.source = arrival.source;
    packet.destination = kDestination;
    packet.address = arrival.to + arrival.offset;
    packet.payload = payload;
    packet.bytes = arrival.bytes;
    packet.put_bytes = arrival.put_bytes;
    packet.put = arrival.sequence;
    packet.sequence = arrival.sequence;
    packet.offset = arrival.offset;
    packet.first = arrival.offset == 0;
    packet.channel = arrival.channel;
    packet.kind = arrival.kind;
    packet.signal = arrival.signal;
    packet.epoch = arrival.epoch;
    packet.ordered = fabric_.order_scope() != Fabric::NONE;
  }
  void run() { engine_.run(); }

  void handle(const emu::Event& event) override {
    if (event.kind == kDelivery) {
      visibility_.deliver(event.as<Packet>());
    } else {
      visibility_.block_due(event.as<Packet>());
    }
    most_held = std::max(most_held, visibility_.held());
  }
  void on_visible(const Packet& packet, Address address, std::uint32_t bytes) override {
    visible.push_back({engine_.now(), packet.source, packet.sequence, address, bytes});
    for (Address byte = address; byte < address + bytes; ++byte) {
      if (first_visible_[byte] < 0) first_visible_[byte] = engine_.now();
    }
  }
  void on_complete(const Packet& packet) override {
    complete.push_back({engine_.now(), packet.source, packet.sequence, 0, packet.put_bytes});
  }
  void on_acknowledge(const Packet& packet) override {
    acknowledged.push_back({engine_.now(), packet.source, packet.sequence, 0, packet.put_bytes});
  }
  void on_message(const Packet& packet) override { visibility_.apply(packet); }

  Memory& memory() { return memory_; }
  std::size_t held() const { return visibility_.held(); }
  /// When the byte at `address` became visible for the first time; -1: never.
  Time visible_at(Address address) const { return first_visible_[address]; }

  std::vector<Seen> visible, complete, acknowledged;
  std::size_t most_held = 0;

 private:
  emu::ProcessGroup processes_;
  const Fabric fabric_;
  emu::Engine engine_;
  static constexpr std::uint64_t kMemoryBytes = 1 << 18;
  Memory memory_;
  Visibility visibility_;
  std::vector<Time> first_visible_ = std::vector<Time>(kMemoryBytes, -1);
};

Fabric ordered(const std::string& scope, const std::string& kind = "WHOLE",
               const std::string& ack = "VISIBLE") {
  return fabric_of("atomic_block_bytes: 64 packet_bytes: 256 order_scope: " + scope +
                   " order_kind: " + kind + " ack_at: " + ack);
}

TEST(Visibility, WholeOrderHoldsALaterPutUntilTheEarlierIsComplete) {
  Destination at(ordered("DEVICE_PAIR"));
  at.arrive({10, 0, 0, 0, 256, 512});
  at.arrive({20, 1, 4096, 0, 4, 4});
  at.arrive({50, 0, 0, 256, 256, 512});
  at.run();
  EXPECT_EQ(at.visible_at(0), 10);
  EXPECT_EQ(at.visible_at(256), 50);
  EXPECT_EQ(at.visible_at(4096), 50);
  ASSERT_EQ(at.complete.size(), 2u);
  EXPECT_EQ(at.complete[0].put, 0u);
  EXPECT_EQ(at.complete[1].put, 1u);
  EXPECT_EQ(at.complete[1].time, 50);
  EXPECT_EQ(at.most_held, 1u);
  EXPECT_EQ(at.held(), 0u);
}

TEST(Visibility, WholeOrderReleasesChainsInOrder) {
  Destination at(ordered("DEVICE_PAIR"));
  // Puts 4, 3, 2, 1 of one packet each arrive backwards, then put 0; then put 5.
  for (std::uint32_t put = 5; put-- > 0;) at.arrive({10 * (5 - put), put, 4096 * put, 0, 8, 8});
  at.arrive({100, 5, 4096 * 5, 0, 8, 8});
  at.run();
  ASSERT_EQ(at.visible.size(), 6u);
  for (std::uint32_t put = 0; put < 6; ++put) {
    EXPECT_EQ(at.visible[put].put, put);
    EXPECT_EQ(at.visible[put].time, put < 5 ? 50 : 100);
  }
}

TEST(Visibility, FirstFragmentOrderHoldsOnlyTheFirstPacket) {
  Destination at(ordered("DEVICE_PAIR", "FIRST_FRAGMENT"));
  at.arrive({10, 0, 0, 0, 256, 512});
  at.arrive({20, 1, 4096, 0, 256, 768});    // the first of put 1 waits for all of put 0
  at.arrive({30, 1, 4096, 256, 256, 768});  // the others do not
  at.arrive({50, 0, 0, 256, 256, 512});
  at.arrive({60, 1, 4096, 512, 256, 768});
  at.run();
  EXPECT_EQ(at.visible_at(4096), 50);
  EXPECT_EQ(at.visible_at(4096 + 256), 30);
  EXPECT_EQ(at.visible_at(4096 + 512), 60);
  ASSERT_EQ(at.complete.size(), 2u);
  EXPECT_EQ(at.complete[0].time, 50);
  EXPECT_EQ(at.complete[1].time, 60);
}

TEST(Visibility, WithoutOrderEverythingIsVisibleOnArrival) {
  Destination at(ordered("NONE"));
  at.arrive({10, 0, 0, 0, 256, 512});
  at.arrive({20, 1, 4096, 0, 4, 4});
  at.arrive({50, 0, 0, 256, 256, 512});
  at.run();
  EXPECT_EQ(at.visible_at(4096), 20);
  EXPECT_EQ(at.visible_at(256), 50);
  EXPECT_EQ(at.complete[0].put, 1u);
}

TEST(Visibility, ChannelsAndSourcesDoNotHoldEachOther) {
  Destination at(ordered("CORE_PAIR"));
  at.arrive({10, 0, 0, 0, 256, 512, 1, 0, 0});  // never completed until 90
  at.arrive({20, 0, 4096, 0, 4, 4, 1, 0, 1});   // another channel of the same source
  at.arrive({30, 0, 8192, 0, 4, 4, 1, 1, 0});   // another source
  at.arrive({90, 0, 0, 256, 256, 512, 1, 0, 0});
  at.run();
  EXPECT_EQ(at.visible_at(4096), 20);
  EXPECT_EQ(at.visible_at(8192), 30);
  EXPECT_EQ(at.most_held, 0u);
}

TEST(Visibility, AcknowledgesAtVisibilityOnceAllOfAPutIsVisible) {
  Destination at(ordered("DEVICE_PAIR"));
  at.arrive({20, 1, 4096, 0, 4, 4});
  at.arrive({10, 0, 0, 0, 256, 512});
  at.arrive({50, 0, 0, 256, 256, 512});
  at.run();
  EXPECT_EQ(at.acknowledged, (std::vector<Seen>{{50, 0, 0, 0, 512}, {50, 0, 1, 0, 4}}));
}

TEST(Visibility, AcknowledgesAtReceptionThoughOrderHoldsThePut) {
  for (const char* kind : {"WHOLE", "FIRST_FRAGMENT"}) {
    Destination at(ordered("DEVICE_PAIR", kind, "RECEIVED"));
    at.arrive({10, 0, 0, 0, 256, 512});
    at.arrive({15, 1, 4096, 0, 256, 512});
    at.arrive({20, 1, 4096, 256, 256, 512});  // put 1 is received
    at.arrive({50, 0, 0, 256, 256, 512});
    at.arrive({60, 2, 8192, 0, 4, 4});
    at.run();
    EXPECT_EQ(at.acknowledged,
              (std::vector<Seen>{{20, 0, 1, 0, 512}, {50, 0, 0, 0, 512}, {60, 0, 2, 0, 4}}))
        << kind;
    EXPECT_EQ(at.visible_at(4096), 50) << kind;
    EXPECT_EQ(at.complete.size(), 3u) << kind;
  }
}

TEST(Visibility, AtomicsAddUpHoweverLateTheyAre) {
  bool late = false;
  for (const char* scope : {"DEVICE_PAIR", "NONE"}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Destination at(ordered(scope), {true, seed, 1000});
      // Eight bytes of value v are v * 0x0101…01.
      for (std::uint32_t i = 0; i < 20; ++i) {
        at.arrive({10 + i, i, 4096, 0, 8, 8, static_cast<std::uint8_t>(1 + i % 3), 0, 0,
                   PacketKind::kAtomicAdd});
      }
      at.run();
      EXPECT_EQ(at.memory().load<std::uint64_t>(4096),
                0x0101010101010101u * (7 * 1 + 7 * 2 + 6 * 3))
          << scope;
      EXPECT_EQ(at.visible.size(), 20u);
      EXPECT_LE(at.visible.back().time, 29 + 1000);
      late = late || at.visible.back().time > 29;
    }
  }
  EXPECT_TRUE(late) << "an adversary that leaves atomics alone";
}

TEST(Visibility, ASignalWaitsForAllOtherBytesOfItsPut) {
  for (const char* kind : {"WHOLE", "FIRST_FRAGMENT"}) {
    for (const char* scope : {"DEVICE_PAIR", "NONE"}) {
      Destination at(ordered(scope, kind));
      at.arrive({10, 0, 0, 0, 256, 516});
      at.arrive({20, 0, 4096 - 512, 512, 4, 516, 1, 0, 0, PacketKind::kPut, true});
      at.arrive({30, 0, 0, 256, 256, 516});
      at.run();
      EXPECT_EQ(at.visible_at(256), 30);
      EXPECT_EQ(at.visible_at(4096), 30);
      EXPECT_EQ(at.most_held, 1u);
      ASSERT_EQ(at.complete.size(), 1u);
      EXPECT_EQ(at.complete[0].time, 30);
      EXPECT_EQ(at.held(), 0u);
    }
  }
}

// Where reception is acknowledged, a put of a later epoch waits for all of the epochs before.
TEST(Visibility, LaterEpochsOfACoreWaitForEarlierOnes) {
  Destination at(ordered("DEVICE_PAIR", "FIRST_FRAGMENT", "RECEIVED"));
  const auto arrive = [&at](Time time, std::uint32_t put, std::uint32_t offset,
                            std::uint16_t epoch) {
    Destination::Arrival arrival{time, put, 4096 * put, offset, 256, 512};
    arrival.epoch = epoch;
    at.arrive(arrival);
  };
  arrive(10, 1, 0, 65535);    // its first fragment waits for put 0
  arrive(20, 1, 256, 65535);  // received now
  arrive(30, 2, 256, 0);      // not a first fragment: only the fence holds it
  arrive(40, 0, 0, 65535);
  arrive(50, 0, 256, 65535);
  arrive(60, 2, 0, 0);
  at.run();
  EXPECT_EQ(at.visible_at(4096 + 256), 20);
  EXPECT_EQ(at.visible_at(4096), 50);
  EXPECT_EQ(at.visible_at(8192 + 256), 50);
  EXPECT_EQ(at.visible_at(8192), 60);
  EXPECT_EQ(at.held(), 0u);
}

// --- The adversary ---

struct Put {
  NodeId source;
  std::uint16_t channel;
  std::uint32_t sequence;
  Address to;
  std::uint32_t bytes;
};

// Random puts of both sources on a few channels, their packets arriving in any order.
class Traffic {
 public:
  Traffic(std::uint64_t seed, bool ordered_channels) : random_(seed, 0, "traffic") {
    std::map<std::pair<NodeId, std::uint16_t>, std::uint32_t> sequences;
    for (std::uint32_t i = 0; i < 40; ++i) {
      const auto source = static_cast<NodeId>(random_.below(2));
      const auto channel = static_cast<std::uint16_t>(random_.below(2));
      // Without order a source numbers its puts through.
      const std::uint32_t sequence =
          sequences[{source, ordered_channels ? channel : std::uint16_t{0}}]++;
      const Address to = i * 4096 + random_.below(100);
      puts.push_back(
          {source, channel, sequence, to, static_cast<std::uint32_t>(1 + random_.below(1500))});
    }
    for (const Put& put : puts) {
      for (std::uint32_t offset = 0; offset < put.bytes;) {
        const auto into = static_cast<std::uint32_t>((put.to + offset) % kBlock);
        const std::uint32_t bytes = std::min(put.bytes - offset, kPacketBytes - into);
        arrivals.push_back({static_cast<Time>(1000 + random_.below(20'000)), put.sequence, put.to,
                            offset, bytes, put.bytes,
                            static_cast<std::uint8_t>(1 + put.sequence % 255), put.source,
                            put.channel});
        offset += bytes;
      }
    }
  }
  void send(Destination& at) const {
    for (const Destination::Arrival& arrival : arrivals) at.arrive(arrival);
    at.run();
  }

  std::vector<Put> puts;
  std::vector<Destination::Arrival> arrivals;

 private:
  emu::RandomStream random_;
};

class UnderAdversary
    : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
 protected:
  Fabric fabric() const {
    return ordered(std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam()));
  }
  bool whole() const { return is_ordered() && fabric().order_kind() == Fabric::WHOLE; }
  bool is_ordered() const { return fabric().order_scope() != Fabric::NONE; }
  static constexpr Time kDelay = 5000;
};

TEST_P(UnderAdversary, DelaysWithinTheBoundAndTheOrder) {
  bool delayed = false;
  bool torn = false;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Traffic traffic(seed, is_ordered());
    Destination plain(fabric());
    traffic.send(plain);
    Destination at(fabric(), {true, seed, kDelay});
    traffic.send(at);
    ASSERT_EQ(at.held(), 0u);

    // No block is shown in parts or twice.
    std::map<Address, std::uint32_t> shown;
    for (const Seen& seen : at.visible) {
      EXPECT_EQ(seen.address / kBlock, (seen.address + seen.bytes - 1) / kBlock)
          << "more than a block at once";
      EXPECT_TRUE(shown.emplace(seen.address, seen.bytes).second) << "twice";
    }
    for (const Put& put : traffic.puts) {
      Address next = put.to;
      while (next < put.to + put.bytes) {
        ASSERT_TRUE(shown.contains(next)) << "never";
        EXPECT_TRUE(next == put.to || next % kBlock == 0) << "a block in parts";
        next += shown[next];
      }
      EXPECT_EQ(next, put.to + put.bytes);
      for (Address byte = put.to; byte < put.to + put.bytes; ++byte) {
        EXPECT_GE(at.visible_at(byte), plain.visible_at(byte));
        EXPECT_LE(at.visible_at(byte), plain.visible_at(byte) + kDelay);
        delayed = delayed || at.visible_at(byte) > plain.visible_at(byte) + kDelay / 2;
        // Inside one packet, whose blocks arrive together.
        const bool border = (byte - put.to / kBlock * kBlock) % kPacketBytes == 0;
        torn = torn || (!border && byte % kBlock == 0 && byte > put.to &&
                        at.visible_at(byte) < at.visible_at(byte - 1));
        EXPECT_EQ(at.memory().load<std::uint8_t>(byte),
                  static_cast<std::uint8_t>(1 + put.sequence % 255));
      }
    }

    // Completion: once per put, when its last byte is visible. Acknowledgement: then or at
    // reception.
    ASSERT_EQ(at.complete.size(), traffic.puts.size());
    ASSERT_EQ(at.acknowledged.size(), traffic.puts.size());
    const bool at_reception = fabric().ack_at() == Fabric::RECEIVED;
    if (!at_reception) {
      EXPECT_EQ(at.acknowledged, at.complete);
    } else {
      EXPECT_EQ(at.acknowledged, plain.acknowledged) << "the adversary delays no reception";
    }
  }
  EXPECT_TRUE(delayed) << "an adversary that never delays";
  EXPECT_TRUE(torn) << "an adversary that never reorders the blocks of a packet";
}

TEST_P(UnderAdversary, KeepsTheChannelsOrder) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Traffic traffic(seed, is_ordered());
    Destination at(fabric(), {true, seed, kDelay});
    traffic.send(at);
    const auto last = [&at](const Put& put) {
      Time time = 0;
      for (Address byte = put.to; byte < put.to + put.bytes; ++byte)
        time = std::max(time, at.visible_at(byte));
      return time;
    };
    const auto earliest = [&at](const Put& put, std::uint32_t bytes) {
      Time time = emu::kNever;
      for (Address byte = put.to; byte < put.to + bytes; ++byte)
        time = std::min(time, at.visible_at(byte));
      return time;
    };
    bool out_of_order = false;
    for (const Put& before : traffic.puts) {
      for (const Put& after : traffic.puts) {
        if (before.source != after.source || before.channel != after.channel ||
            before.sequence + 1 != after.sequence) {
          continue;
        }
        const std::uint32_t first_packet = std::min<std::uint32_t>(
            after.bytes, kPacketBytes - static_cast<std::uint32_t>(after.to % kBlock));
        if (whole()) {
          EXPECT_GE(earliest(after, after.bytes), last(before));
        } else if (is_ordered()) {
          EXPECT_GE(earliest(after, first_packet), last(before));
          out_of_order = out_of_order || earliest(after, after.bytes) < last(before);
        } else {
          out_of_order = out_of_order || earliest(after, first_packet) < last(before);
        }
      }
    }
    EXPECT_NE(out_of_order, whole()) << "an order that nobody asked for";
  }
}

TEST_P(UnderAdversary, ReplaysFromItsSeed) {
  const Traffic traffic(4, is_ordered());
  const auto trace = [&](std::uint64_t seed) {
    Destination at(fabric(), {true, seed, kDelay});
    traffic.send(at);
    return at.visible;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

INSTANTIATE_TEST_SUITE_P(Rules, UnderAdversary,
                         testing::Combine(testing::Values("DEVICE_PAIR", "NONE"),
                                          testing::Values("WHOLE", "FIRST_FRAGMENT"),
                                          testing::Values("VISIBLE", "RECEIVED")));

}  // namespace
}  // namespace orrery::fabric
