// The counts that collectives need before rows can move: every device's rows by expert, gathered by
// every device and copied to its host.
//
// Buffers are single: a device may gather again when everybody has heard from it since it read.
#pragma once

#include <cstdint>
#include <span>

#include "devices/core.h"
#include "devices/device_process.h"
#include "moe/algorithms/nccl_splits.h"
#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

class CountGather {
 public:
  CountGather(const Problem& problem, Layout& layout);

  /// All cores: rows by expert of `entries` choices at `ids` (int32, -1 masked). Cores meet
  /// afterwards.
  emu::Task histogram(devices::Core& core, fabric::Address ids, std::uint32_t entries) const;
  /// All cores: this device's counts to every device, each with a fence and the call's number.
  /// `fenced` false: without those (a fault).
  emu::Task gather(devices::Core& core, std::uint32_t call, bool fenced = true) const;
  /// All cores, each for its share of the devices.
  emu::Task wait_counts(devices::Core& core, std::uint32_t call) const;
  /// What this core waited for, for the host: its time is that of the host synchronisation, which
  /// follows.
  void read(devices::Core& core) const;

  /// Instead of all that: every device has so many rows for every expert.
  void assume(devices::DeviceProcess& device, std::uint32_t rows) const;

  /// Rows by [source][expert], as the host read them.
  std::span<const std::uint32_t> counts(devices::Core& core) const {
    return core.array<std::uint32_t>(host_, std::uint64_t{devices_} * experts_);
  }
  NcclSplits splits(devices::Core& core) const {
    return {counts(core), problem_.placement, core.rank()};
  }

 private:
  fabric::Address row(fabric::Address matrix, std::uint32_t source) const {
    return matrix + source * (experts_ * 4ull);
  }

  const Problem& problem_;
  const std::uint32_t devices_;
  const std::uint32_t experts_;
  fabric::Address gathered_;  // uint32 [source][expert]
  fabric::Address host_;
  fabric::Address signals_;  // uint32 [source]: the number of its latest call
};

}  // namespace orrery::moe
