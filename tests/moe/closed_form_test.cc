// p2p, ring and all-to-all against formulas from the numbers in the topology files, to the
// picosecond, where all latencies are equal and no two puts share a link.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using Time = std::int64_t;

// ceil(bytes / rate) ps; the rate in GB/s as the file says it.
Time ps(std::uint64_t bytes, double gb_per_s) {
  if (gb_per_s == 0) return 0;
  const auto mb_per_s = static_cast<std::uint64_t>(gb_per_s * 1000 + 0.5);
  return static_cast<Time>((bytes * 1'000'000 + mb_per_s - 1) / mb_per_s);
}
Time ns(double nanoseconds) { return static_cast<Time>(nanoseconds * 1000 + 0.5); }

// What the formulas need of a machine: numbers from its file.
struct Numbers {
  enum Links {
    kPerPut,
    kPerTarget,
    kShared
  };  // a first link of its own: planes in turn; full mesh; neither
  const char* topology;
  const char* placement;
  std::uint32_t devices;
  Links links;
  Settings settings = {};  // on top of the file

  devices::Machine file =
      devices::load_machine("topologies/" + std::string(topology) + ".textproto", settings);
  const devices::Device& device = file.device();
  const fabric::Fabric& fabric = file.fabric();
  bool ordered = fabric.order_scope() != fabric::Fabric::NONE;
  Time latency = 0;      // one way between any two devices of the placement
  double link_rate = 0;  // of every link on the way
};
using Case = std::shared_ptr<const Numbers>;

Case mesh() {
  auto numbers = std::make_shared<Numbers>("ascend950-mesh8", "packed", 8u, Numbers::kPerTarget);
  numbers->latency = ns(numbers->fabric.full_mesh().links(0).latency_ns());
  numbers->link_rate = numbers->fabric.full_mesh().links(0).gb_per_s();
  return numbers;
}
Case star(std::uint32_t devices) {
  auto numbers = std::make_shared<Numbers>("star", "packed", devices, Numbers::kShared);
  numbers->latency = 2 * ns(numbers->fabric.star().link().latency_ns());
  numbers->link_rate = numbers->fabric.star().link().gb_per_s();
  return numbers;
}
// Two devices of tiny, on one node or on two.
Case tiny(const char* placement, bool far) {
  auto numbers = std::make_shared<Numbers>("tiny", placement, 2u, Numbers::kPerPut);
  const fabric::Clos& clos = numbers->fabric.clos();
  numbers->latency =
      2 * ns(clos.device_link().latency_ns()) + (far ? 2 * ns(clos.uplink().latency_ns()) : 0);
  numbers->link_rate = clos.device_link().gb_per_s();
  EXPECT_EQ(clos.device_link().gb_per_s(), clos.uplink().gb_per_s());
  return numbers;
}

// The same with one plane of the two: puts no longer take turns, they share a link.
Case tiny_plane(const char* placement, bool far) {
  auto numbers = std::make_shared<Numbers>("tiny", placement, 2u, Numbers::kShared,
                                           Settings{{"fabric.failed_planes", far ? "0" : "1"}});
  numbers->latency = tiny(placement, far)->latency;
  numbers->link_rate = tiny(placement, far)->link_rate;
  return numbers;
}

enum Which { kMesh, kStar, kTinyNode, kTinyFar, kTinyNodePlane, kTinyFarPlane };
Case numbers_of(Which which, std::uint32_t star_devices) {
  switch (which) {
    case kMesh:
      return mesh();
    case kStar:
      return star(star_devices);
    case kTinyNode:
      return tiny("0,1", false);
    case kTinyFar:
      return tiny("0,2", true);
    case kTinyNodePlane:
      return tiny_plane("0,1", false);
    case kTinyFarPlane:
      return tiny_plane("0,2", true);
  }
  return nullptr;
}
std::string name_of(const testing::TestParamInfo<Which>& tested) {
  const char* const names[] = {"ascend950_mesh8",          "star",
                               "tiny_same_node",           "tiny_two_nodes",
                               "tiny_same_node_one_plane", "tiny_two_nodes_one_plane"};
  return names[tested.param];
}
const auto kMachines =
    testing::Values(kMesh, kStar, kTinyNode, kTinyFar, kTinyNodePlane, kTinyFarPlane);

// The program of the three benchmarks on one device: for every target a put, a fence, a flag; then
// a poll over the flags. Every device does the same at the same time, so what device d sends is
// what d receives.
class Expected {
 public:
  Expected(Case numbers, std::uint32_t bytes)
      : numbers_(std::move(numbers)),
        n_(*numbers_),
        bytes_(bytes),
        now_(ns(n_.device.launch_ns())) {}

  // A put and its flag to a target with a path of its own. The visible time of the flag.
  Time put_and_flag() {
    if (n_.links == Numbers::kPerTarget) link_free_ = 0;
    const Time complete = send(bytes_) + n_.latency;
    if (!n_.ordered) {
      now_ = std::max(now_, std::max(complete, complete_) + n_.latency);
    } else {
      now_ += ns(n_.device.fence_ns());
    }
    const Time flag = send(4) + n_.latency;
    // An ordered channel shows the flag no sooner than the put; elsewhere the fence has waited.
    complete_ = std::max(flag, n_.ordered ? complete : 0);
    return complete_;
  }
  // Sweeps over n flags, slot i read at t0 + (s n + i) c, until a sweep has seen all.
  Time poll(const std::vector<Time>& visible) const {
    Time end = now_;
    for (;;) {
      bool all = true;
      for (const Time flag : visible) {
        all = all && flag <= end;
        end += ns(n_.device.poll_ns());
      }
      if (all) return end;
    }
  }
  Time now() const { return now_; }

 private:
  // Issues a put; returns when the tail of its last packet leaves the source's link.
  Time send(std::uint32_t bytes) {
    now_ += ns(n_.device.issue_ns());
    Time start = now_;
    const Time service = ns(n_.device.service_core_put_ns());
    if (service > 0) start = service_free_ = std::max(service_free_, start) + service;
    if (n_.links == Numbers::kPerPut) link_free_ = 0;
    pipe_free_ = std::max(pipe_free_, start);
    for (std::uint32_t left = bytes; left > 0;) {
      const std::uint32_t size = std::min(left, n_.fabric.packet_bytes());
      left -= size;
      pipe_free_ += ps(size, n_.device.core_store_gb_per_s());
      link_free_ = std::max(link_free_, pipe_free_) + ps(size, n_.link_rate);
    }
    return link_free_;
  }

  const Case numbers_;
  const Numbers& n_;
  const std::uint32_t bytes_;
  Time now_;
  Time service_free_ = 0;
  Time pipe_free_ = 0;
  Time link_free_ = 0;
  Time complete_ = 0;
};

const std::uint32_t kSizes[] = {4, 512, 4096, 5000, 14336, 65536};

Result measured(const Numbers& numbers, const std::string& algorithm, std::uint32_t bytes) {
  const std::uint32_t devices = algorithm == "p2p" ? 2 : numbers.devices;
  Settings settings = numbers.settings;
  settings.emplace_back("algorithm.bytes", std::to_string(bytes));
  RunConfig config = shipped_run(numbers.topology, algorithm, devices, settings);
  config.placement = numbers.placement;
  return good_run(config);
}

class RingForm : public testing::TestWithParam<Which> {};

TEST_P(RingForm, EveryDeviceTakesTheSameTime) {
  const Case numbers = numbers_of(GetParam(), 256);
  for (const std::uint32_t bytes : kSizes) {
    Expected expected(numbers, bytes);
    const Time flag = expected.put_and_flag();
    const Result result = measured(*numbers, "ring", bytes);
    const Latency& latency = result.operations(0).latency_us();
    EXPECT_EQ(to_ps(latency.max()), expected.poll({flag})) << bytes;
    EXPECT_EQ(to_ps(latency.min()), expected.poll({flag})) << bytes;
  }
}
INSTANTIATE_TEST_SUITE_P(Machines, RingForm, kMachines, name_of);

class PointToPointForm : public testing::TestWithParam<Which> {};

// The receiver polls from its launch on.
TEST_P(PointToPointForm, Receiver) {
  const Case numbers = numbers_of(GetParam(), 256);
  for (const std::uint32_t bytes : kSizes) {
    Expected sender(numbers, bytes);
    const Time flag = sender.put_and_flag();
    const Expected receiver(numbers, bytes);
    const Result result = measured(*numbers, "p2p", bytes);
    EXPECT_EQ(to_ps(result.operations(0).latency_us().max()), receiver.poll({flag})) << bytes;
  }
}
INSTANTIATE_TEST_SUITE_P(Machines, PointToPointForm, kMachines, name_of);

class AllToAllForm : public testing::TestWithParam<Which> {};

// Shift s of every device goes to another target at the same time: no two meet anywhere.
TEST_P(AllToAllForm, ShiftSchedule) {
  const Case numbers = numbers_of(GetParam(), 24);
  for (const std::uint32_t bytes : kSizes) {
    Expected expected(numbers, bytes);
    std::vector<Time> flags;
    for (std::uint32_t shift = 1; shift < numbers->devices; ++shift)
      flags.push_back(expected.put_and_flag());
    const Result result = measured(*numbers, "alltoall", bytes);
    const Latency& latency = result.operations(0).latency_us();
    EXPECT_EQ(to_ps(latency.max()), expected.poll(flags)) << bytes;
    EXPECT_EQ(to_ps(latency.min()), expected.poll(flags)) << bytes;
  }
}
INSTANTIATE_TEST_SUITE_P(Machines, AllToAllForm, kMachines, name_of);

}  // namespace
}  // namespace orrery::moe
