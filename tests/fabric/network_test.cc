#include "fabric/network.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/fabric/fabrics.h"

namespace orrery::fabric {
namespace {

using emu::Time;

struct Arrived {
  Time time;
  Packet packet;
};

class Sink final : public emu::LogicalProcess {
 public:
  void handle(const emu::Event& event) override {
    EXPECT_EQ(event.kind, kDelivery);
    arrived.push_back({event.time, event.as<Packet>()});
  }
  std::vector<Arrived> arrived;
};

// All nodes of a fabric; devices take note of what they get.
class World {
 public:
  explicit World(const std::string& text)
      : fabric(fabric_of(text)),
        topology(build_topology(fabric, "test")),
        routing(topology),
        engine(processes_, nullptr, topology.nodes()),
        network(engine, topology, routing, fabric),
        sinks(topology.devices) {
    for (NodeId node = 0; node < topology.nodes(); ++node) {
      if (topology.is_device(node)) {
        engine.attach(node, &sinks[node]);
      } else {
        switches_.push_back(std::make_unique<Switch>(network, node));
        engine.attach(node, switches_.back().get());
      }
    }
  }
  void send(Time time, NodeId from, NodeId to, std::uint32_t bytes, std::uint32_t put = 0,
            std::uint32_t choice = 0) {
    Packet packet;
    packet.source = from;
    packet.destination = to;
    packet.bytes = bytes;
    packet.put = put;
    packet.choice = choice;
    network.inject(time, packet);
  }
  const LinkUse& use(NodeId from, NodeId to) const {
    for (LinkId link = 0; link < topology.links.size(); ++link) {
      if (topology.links[link].from == from && topology.links[link].to == to)
        return network.use(link);
    }
    throw std::logic_error("no such link");
  }

  const Fabric fabric;
  const Topology topology;
  const Routing routing;

 private:
  emu::ProcessGroup processes_;

 public:
  emu::Engine engine;
  Network network;
  std::vector<Sink> sinks;

 private:
  std::vector<std::unique_ptr<Switch>> switches_;
};

// 1 GB/s is a byte per nanosecond.
const char* const kStar = "star { devices: 4 link { latency_ns: 100 gb_per_s: 1 } }";
constexpr Time kNs = 1000;

TEST(Network, OnePacketCutsThrough) {
  World world(kStar);
  world.send(0, 0, 1, 50);
  world.engine.run();
  ASSERT_EQ(world.sinks[1].arrived.size(), 1u);
  EXPECT_EQ(world.sinks[1].arrived[0].time, 250 * kNs);  // 50 bytes once, 100 ns twice
  EXPECT_EQ(world.sinks[1].arrived[0].packet.journey.latency, 200 * kNs);
  EXPECT_EQ(world.sinks[1].arrived[0].packet.path_latency, 200 * kNs);
  EXPECT_EQ(world.sinks[1].arrived[0].packet.journey.queueing[0], 0);
}

TEST(Network, FirstComeFirstServed) {
  World world(kStar);
  world.send(0, 0, 1, 50, 1);
  world.send(10 * kNs, 0, 1, 50, 2);
  world.send(200 * kNs, 0, 1, 50, 3);  // the link is free again
  world.engine.run();
  const auto& arrived = world.sinks[1].arrived;
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[0].time, 250 * kNs);
  EXPECT_EQ(arrived[1].time, 300 * kNs);
  EXPECT_EQ(arrived[2].time, 450 * kNs);
  EXPECT_EQ(arrived[1].packet.journey.queueing[0], 40 * kNs);
  EXPECT_EQ(arrived[2].packet.journey.queueing[0], 0);
}

TEST(Network, TwoSendersMeetAtTheLastLink) {
  World world(kStar);
  world.send(0, 0, 1, 50, 1);
  world.send(10 * kNs, 2, 1, 50, 2);
  world.send(0, 3, 2, 50, 3);  // elsewhere
  world.engine.run();
  const auto& arrived = world.sinks[1].arrived;
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].time, 250 * kNs);
  EXPECT_EQ(arrived[1].time, 300 * kNs);
  EXPECT_EQ(arrived[1].packet.journey.queueing[0], 40 * kNs);
  EXPECT_EQ(world.sinks[2].arrived[0].time, 250 * kNs);
  EXPECT_EQ(world.use(4, 1).waited, 40 * kNs);
  EXPECT_EQ(world.use(4, 1).bytes, 100u);
  EXPECT_EQ(world.use(4, 1).packets, 2u);
  EXPECT_EQ(world.use(4, 1).busy, 100 * kNs);
  EXPECT_EQ(world.use(0, 4).waited, 0);
}

// n packets to one device: what is left of its bandwidth, and nothing else, says how long they
// take.
TEST(Network, IncastTakesWhatTheRemainingPlanesGive) {
  constexpr std::uint32_t kSenders = 6;
  constexpr std::uint32_t kBytes = 50;
  const std::string clos =
      "clos { nodes: 1 devices_per_node: 7 planes: 2 device_link { latency_ns: 100 gb_per_s: 1 } }";
  const struct {
    const char* failed;
    std::uint32_t planes;
  } cases[] = {{"", 2},
               {"failed_planes: 0 ", 1},
               {"failed_planes: 1 ", 1},
               {"failed_links: 'device0-L1.node0.plane1' ", 1}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.failed);
    World world(test.failed + clos);
    for (std::uint32_t sender = 1; sender <= kSenders; ++sender)
      world.send(0, sender, 0, kBytes, sender, sender);
    world.engine.run();
    const auto& arrived = world.sinks[0].arrived;
    ASSERT_EQ(arrived.size(), kSenders);
    // Cut-through: the first packet's serialisation, then one after the other on each plane.
    EXPECT_EQ(arrived.back().time, (200 + kSenders / test.planes * kBytes) * kNs);
  }
}

TEST(Network, TiesGoToTheSmallerSender) {
  World world(kStar);
  world.send(0, 3, 1, 50, 3);
  world.send(0, 0, 1, 50, 0);
  world.send(0, 2, 1, 50, 2);
  world.engine.run();
  const auto& arrived = world.sinks[1].arrived;
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[0].packet.put, 0u);
  EXPECT_EQ(arrived[1].packet.put, 2u);
  EXPECT_EQ(arrived[2].packet.put, 3u);
}

std::string chain(double first, double second, double third) {
  const auto cable = [](const char* a, const char* b, double rate, const char* name) {
    return std::string("{a: '") + a + "' b: '" + b +
           "' link { latency_ns: 100 gb_per_s: " + std::to_string(rate) + " } link_class: '" +
           name + "'}";
  };
  return "explicit_graph { devices: ['a', 'b', 'c'] switches: ['s', 't'] cables: [" +
         cable("a", "s", first, "up") + "," + cable("c", "s", first, "up") + "," +
         cable("s", "t", second, "middle") + "," + cable("t", "b", third, "down") + "] }";
}

// A packet's tail leaves at max(head out + bytes / rate out, tail in + latency).
TEST(Network, CutThroughBetweenRates) {
  for (const auto& [first, second, third] :
       {std::tuple{1.0, 10.0, 10.0}, std::tuple{10.0, 1.0, 10.0}, std::tuple{10.0, 10.0, 1.0}}) {
    World world(chain(first, second, third));
    world.send(0, 0, 1, 1000);
    world.engine.run();
    EXPECT_EQ(world.sinks[1].arrived[0].time, (300 + 1000) * kNs) << first << second << third;
  }
}

// A slow first link keeps the fast one behind it busy until the tail is through.
TEST(Network, ASlowPacketBlocksAFastLink) {
  World world(chain(1, 10, 10));
  world.send(0, 0, 1, 1000, 1);
  world.send(500 * kNs, 2, 1, 100, 2);  // its head meets the first one's middle
  world.engine.run();
  const auto& arrived = world.sinks[1].arrived;
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].time, 1300 * kNs);
  // Head at s at 600 ns, waits until 1100; its own tail is 100 ns behind its head.
  EXPECT_EQ(arrived[1].packet.journey.queueing[1], 500 * kNs);
  EXPECT_EQ(arrived[1].time, (1100 + 10 + 100 + 100) * kNs);
}

TEST(Network, QueueingIsAccountedByLinkClass) {
  World world(chain(10, 1, 10));
  world.send(0, 0, 1, 100, 1);
  world.send(0, 0, 1, 100, 2);
  world.send(0, 2, 1, 100, 3);
  world.engine.run();
  const auto& arrived = world.sinks[1].arrived;
  ASSERT_EQ(arrived.size(), 3u);
  ASSERT_EQ(world.topology.link_classes, (std::vector<std::string>{"up", "middle", "down"}));
  // 1 at s at 100 ns; 3 too, one sender later; 2 ten ns later. The middle takes 100 ns for each.
  EXPECT_EQ(arrived[1].packet.put, 3u);
  EXPECT_EQ(arrived[1].packet.journey.queueing[1], 100 * kNs);
  EXPECT_EQ(arrived[2].packet.put, 2u);
  EXPECT_EQ(arrived[2].packet.journey.queueing[0], 10 * kNs);
  EXPECT_EQ(arrived[2].packet.journey.queueing[1], 190 * kNs);
  EXPECT_EQ(arrived[2].packet.journey.queueing[2], 0);
}

TEST(Network, HeadersTakeTimeAndCount) {
  World world(std::string("header_bytes: 25 ") + kStar);
  world.send(0, 0, 1, 50);
  world.engine.run();
  EXPECT_EQ(world.sinks[1].arrived[0].time, 275 * kNs);
  EXPECT_EQ(world.use(0, 4).bytes, 75u);
}

TEST(Network, ToItselfUsesNoLink) {
  World world(std::string("self_latency_ns: 30 ") + kStar);
  world.send(5 * kNs, 2, 2, 50);
  world.engine.run();
  EXPECT_EQ(world.sinks[2].arrived[0].time, 35 * kNs);
  EXPECT_EQ(world.use(2, 4).packets, 0u);
}

TEST(Network, PlaneChoices) {
  const std::string planes =
      "clos { nodes: 1 devices_per_node: 2 planes: 4 device_link { latency_ns: 5 gb_per_s: 1 } }";
  const auto used = [&](const std::string& choice) {
    World world("plane_choice: " + choice + " " + planes);
    for (std::uint64_t n = 0; n < 40; ++n)
      world.send(0, 0, 1, 10, 0, world.network.choice(0, 1, n));
    world.engine.run();
    std::vector<std::uint64_t> packets;
    for (NodeId chip = 2; chip < 6; ++chip) packets.push_back(world.use(0, chip).packets);
    return packets;
  };
  EXPECT_EQ(used("ROUND_ROBIN"), (std::vector<std::uint64_t>{10, 10, 10, 10}));
  EXPECT_EQ(used("SINGLE"), (std::vector<std::uint64_t>{40, 0, 0, 0}));
  for (const std::uint64_t packets : used("HASH")) EXPECT_GT(packets, 2u);
}

// Two nodes of two devices, two planes, two second-tier switches a plane: devices 0–3, chips 4–7,
// then the second tier.
TEST(Network, SwitchChoices) {
  const std::string tiers =
      "clos { nodes: 2 devices_per_node: 2 planes: 2 spines_per_plane: 2"
      " device_link { latency_ns: 5 gb_per_s: 1 } uplink { latency_ns: 5 gb_per_s: 1 } }";
  // Packets on each link into the destination's first tier, by second-tier switch.
  const auto used = [&](const std::string& choice, NodeId destination) {
    World world("switch_choice: " + choice + " " + tiers);
    for (std::uint64_t n = 0; n < 40; ++n)
      world.send(0, 0, destination, 10, 0, world.network.choice(0, destination, n));
    world.engine.run();
    std::vector<std::uint64_t> packets;
    for (LinkId link = 0; link < world.topology.links.size(); ++link) {
      const Link& each = world.topology.links[link];
      if (each.from >= 8 && world.network.use(link).packets > 0)
        packets.push_back(world.network.use(link).packets);
    }
    return packets;
  };
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(used("SPREAD", 2), (Counts{10, 10, 10, 10}));
  // One switch of each plane for a device; its neighbour is reached through the others.
  EXPECT_EQ(used("DESTINATION", 2), (Counts{20, 20}));
  EXPECT_EQ(used("DESTINATION", 3), (Counts{20, 20}));
  World world("switch_choice: DESTINATION " + tiers);
  for (std::uint64_t n = 0; n < 40; ++n) {
    for (const NodeId destination : {2u, 3u})
      world.send(0, 0, destination, 10, 0, world.network.choice(0, destination, n));
  }
  world.engine.run();
  int links = 0;
  for (LinkId link = 0; link < world.topology.links.size(); ++link) {
    if (world.topology.links[link].from < 8 || world.network.use(link).packets == 0) continue;
    EXPECT_EQ(world.network.use(link).packets, 20u);
    ++links;
  }
  EXPECT_EQ(links, 4);
}

// Four switches that are all joined, two devices each: 0 and 1 on switch 8, 2 and 3 on switch 9.
std::string group_of_switches(bool adaptive) {
  return std::string(
             "header_bytes: 0 dragonfly { groups: 1 switches_per_group: 4 nodes_per_group: 4 "
             "devices_per_node: 2 nic_link { latency_ns: 1 gb_per_s: 8 } "
             "local { latency_ns: 10 gb_per_s: 4 } adaptive: ") +
         (adaptive ? "true }" : "false }");
}

TEST(Network, PacketsGoRoundAQueueWhereRoutingIsAdaptive) {
  constexpr std::uint32_t kPackets = 60;
  emu::Time ends[2] = {0, 0};
  for (const bool adaptive : {false, true}) {
    World world(group_of_switches(adaptive));
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      world.send(0, 0, 2, 800, i);
      world.send(0, 1, 3, 800, i);
    }
    world.engine.run();
    std::size_t arrived = 0;
    for (const NodeId device : {2, 3}) {
      arrived += world.sinks[device].arrived.size();
      for (const Arrived& each : world.sinks[device].arrived)
        ends[adaptive ? 1 : 0] = std::max(ends[adaptive ? 1 : 0], each.time);
    }
    EXPECT_EQ(arrived, 2 * kPackets);
    const std::uint64_t round = world.use(8, 10).packets + world.use(8, 11).packets;
    EXPECT_EQ(round, world.use(10, 9).packets + world.use(11, 9).packets);
    EXPECT_EQ(round + world.use(8, 9).packets, 2 * kPackets);
    EXPECT_EQ(round > 0, adaptive);
  }
  // Three ways out of the switch carry what one did: 4 + 4 + 4 GB/s for 16, behind a head start.
  EXPECT_LT(ends[1], ends[0] / 2);
}

TEST(Network, NoPacketGoesRoundWhatIsFree) {
  World world(group_of_switches(true));
  for (std::uint32_t i = 0; i < 20; ++i)
    world.send(i * emu::from_ns(1000), 0, 2, 800, i);  // each has gone before the next comes
  world.engine.run();
  EXPECT_EQ(world.use(8, 9).packets, 20u);
}

}  // namespace
}  // namespace orrery::fabric
