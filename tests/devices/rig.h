// Devices with hand-written programs: what the tests of this folder run.
//
//   Rig rig(machine("tiny"), 2);
//   rig.run(1, [&](Core& core) -> emu::Task { co_await core.wait_until(…); });
//   EXPECT_EQ(rig.go(), "");
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/cluster.h"
#include "devices/machine.h"
#include "emu/text_config.h"

namespace orrery::devices {

using Program = std::function<emu::Task(Core&)>;

/// A shipped machine with overrides.
inline Machine machine(const std::string& name, const Overrides& overrides = {}) {
  return load_machine("topologies/" + name + ".textproto", overrides);
}

/// A machine from text, for shapes that no file has.
inline Machine machine_of(const std::string& text) {
  Machine machine;
  emu::parse_text(text, "test", machine);
  check_machine(machine, "test");
  return machine;
}

/// With this poll cost a wait ends one picosecond after what it waits for is visible.
inline const std::pair<std::string, std::string> kFinePolls{"device.poll_ns", "0.001"};

class Rig {
 public:
  explicit Rig(Machine what, std::uint32_t ranks, fabric::Adversary adversary = {},
               const std::string& placement = "packed", std::uint64_t memory_bytes = 8 << 20,
               std::uint64_t causal_entries = 0, const WhatIf& what_if = {},
               std::vector<fabric::Region> regions = {}, std::uint64_t check_records = 0)
      : machine_(std::move(what)) {
    ClusterOptions options;
    options.ranks = ranks;
    options.placement = placement;
    options.memory_bytes = memory_bytes;
    options.regions = std::move(regions);  // instead, if there are any
    options.adversary = adversary;
    options.causal_entries = causal_entries;
    options.what_if = what_if;
    options.check_records = check_records;
    cluster_ = std::make_unique<Cluster>(processes_, nullptr, machine_, "test", options);
  }

  Cluster& cluster() { return *cluster_; }
  DeviceProcess& device(std::uint32_t rank) { return cluster_->device(rank); }
  fabric::Memory& memory(std::uint32_t rank) { return device(rank).memory(); }
  const Costs& costs() const { return cluster_->costs(); }

  /// One kernel of `cores` cores on `rank`, launched at `start`.
  void run(std::uint32_t rank, Program program, std::uint32_t cores = 1, emu::Time start = 0) {
    device(rank).start_stream(stream(device(rank), cores, std::move(program)), start);
  }
  /// The hang report, if any.
  std::string go() { return cluster_->run(); }

 private:
  static emu::Task stream(DeviceProcess& device, std::uint32_t cores, Program program) {
    auto kernel = device.kernel(0, 0, cores, std::move(program));
    co_await kernel;
  }

  emu::ProcessGroup processes_;
  Machine machine_;
  std::unique_ptr<Cluster> cluster_;
};

inline Slots word_at(fabric::Address address) { return {address, 4, 4, 1, 0}; }
inline const auto nobody = [](std::uint32_t) -> std::string { return "nobody"; };

/// ceil(bytes / rate) in picoseconds, computed from the decimal rate of a topology file: design
/// section 5.
inline emu::Time ps(std::uint64_t bytes, double gb_per_s) {
  const auto mb_per_s = static_cast<std::uint64_t>(gb_per_s * 1000 + 0.5);
  return static_cast<emu::Time>((bytes * 1'000'000 + mb_per_s - 1) / mb_per_s);
}
inline emu::Time ns(double nanoseconds) { return static_cast<emu::Time>(nanoseconds * 1000 + 0.5); }

/// Sizes of the packets that `bytes` to an aligned address travel in.
inline std::vector<std::uint32_t> packets(std::uint64_t bytes, std::uint32_t packet_bytes) {
  std::vector<std::uint32_t> sizes(bytes / packet_bytes, packet_bytes);
  if (bytes % packet_bytes != 0) sizes.push_back(static_cast<std::uint32_t>(bytes % packet_bytes));
  return sizes;
}

}  // namespace orrery::devices
