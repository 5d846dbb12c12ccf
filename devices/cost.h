// The costs of a machine that one can imagine away, one by one: what would a run take without?
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/machine.pb.h"
#include "fabric/link_removal.h"
#include "fabric/topology.h"

namespace orrery::devices {

enum class Cost : std::uint8_t {
  kNone,         // what nothing can remove
  kLaunch,       // kernel launch
  kHostSync,     // the host between two kernels
  kIssue,        // a core's own time per put, get or atomic
  kServiceCore,  // the service core's time per put
  kCoreStore,    // the rate at which a core streams stores into the fabric
  kStoreWindow,  // the bound on a core's outstanding stores
  kFence,        // a fence where the fabric orders already
  kCopyStart,    // fixed part of a local copy
  kCoreCopy,     // what one core reaches in local memory
  kMemory,       // the device's memory bandwidth
  kPoll,
  kBarrier,      // a core barrier's own time, not the waiting for the last core
  kLocalAtomic,  // a core's fetch-and-add in local memory
  kCompute,
  kSelfLatency,  // a store to the device's own memory
  kLateStart,    // devices begin an operation at different times
  kFirstLink,    // per link class its latency, then its bandwidth
};
inline constexpr std::size_t kCosts =
    static_cast<std::size_t>(Cost::kFirstLink) + 2 * fabric::Topology::kMaxLinkClasses;

constexpr Cost link_latency(std::size_t link_class) {
  return static_cast<Cost>(static_cast<std::size_t>(Cost::kFirstLink) + 2 * link_class);
}
constexpr Cost link_bandwidth(std::size_t link_class) {
  return static_cast<Cost>(static_cast<std::size_t>(Cost::kFirstLink) + 2 * link_class + 1);
}

/// In words, e.g. "kernel launch", "latency of device-L1 links".
std::string name_of(Cost cost, const std::vector<std::string>& link_classes);

/// What no parameter of a machine can take away.
struct WhatIf {
  fabric::LinkRemoval links;
  bool free_compute = false;  // what cores compute takes no time
};

/// How a run is made without a cost.
struct CostRemoval {
  std::vector<std::pair<std::string, std::string>> settings;  // as --set takes them
  WhatIf what_if;
  bool align = false;  // operations start everywhere at once
};
CostRemoval removal_of(Cost cost);

}  // namespace orrery::devices
