#include "devices/cost.h"

#include "emu/errors.h"

namespace orrery::devices {

std::string name_of(Cost cost, const std::vector<std::string>& link_classes) {
  switch (cost) {
    case Cost::kNone:
      return "what cannot be removed";
    case Cost::kLaunch:
      return "kernel launch";
    case Cost::kHostSync:
      return "host synchronisation";
    case Cost::kIssue:
      return "issue of puts";
    case Cost::kServiceCore:
      return "service core";
    case Cost::kCoreStore:
      return "store rate of a core";
    case Cost::kStoreWindow:
      return "window of outstanding stores";
    case Cost::kFence:
      return "fences";
    case Cost::kCopyStart:
      return "start of local copies";
    case Cost::kCoreCopy:
      return "copy rate of a core";
    case Cost::kMemory:
      return "memory bandwidth";
    case Cost::kPoll:
      return "polling";
    case Cost::kBarrier:
      return "core barriers";
    case Cost::kLocalAtomic:
      return "local atomics";
    case Cost::kCompute:
      return "computation";
    case Cost::kSelfLatency:
      return "latency of stores to itself";
    case Cost::kLateStart:
      return "late peers";
    case Cost::kFirstLink:
      break;
  }
  const std::size_t link =
      static_cast<std::size_t>(cost) - static_cast<std::size_t>(Cost::kFirstLink);
  if (link / 2 >= link_classes.size()) throw emu::InvariantError("no such cost");
  return (link % 2 == 0 ? "latency of " : "bandwidth of ") + link_classes[link / 2] + " links";
}

CostRemoval removal_of(Cost cost) {
  CostRemoval removal;
  const auto set = [&removal](const char* field, const char* value) {
    removal.settings.emplace_back(field, value);
  };
  switch (cost) {
    case Cost::kNone:
      break;
    case Cost::kLaunch:
      set("device.launch_ns", "0");
      break;
    case Cost::kHostSync:
      set("device.host_sync_ns", "0");
      break;
    case Cost::kIssue:
      set("device.issue_ns", "0");
      break;
    case Cost::kServiceCore:
      set("device.service_core_put_ns", "0.001");  // 0 would be a device without that core
      break;
    case Cost::kCoreStore:
      set("device.core_store_gb_per_s", "0");  // 0: unlimited, here and below
      break;
    case Cost::kStoreWindow:
      set("device.outstanding_stores", "0");
      break;
    case Cost::kFence:
      set("device.fence_ns", "0");
      break;
    case Cost::kCopyStart:
      set("device.copy_ns", "0");
      break;
    case Cost::kCoreCopy:
      set("device.core_copy_gb_per_s", "0");
      break;
    case Cost::kMemory:
      set("device.hbm_gb_per_s", "0");
      break;
    case Cost::kPoll:
      set("device.poll_ns", "0.001");  // a sweep takes some time, or nothing would ever pass
      break;
    case Cost::kBarrier:
      set("device.barrier_ns", "0");
      set("device.barrier_per_core_ns", "0");
      break;
    case Cost::kLocalAtomic:
      set("device.local_atomic_ns", "0");
      break;
    case Cost::kCompute:
      removal.what_if.free_compute = true;  // also what no parameter scales
      break;
    case Cost::kSelfLatency:
      set("fabric.self_latency_ns", "0");
      break;
    case Cost::kLateStart:
      set("workload.jitter_ns", "0");
      removal.align = true;
      break;
    default: {
      const std::size_t link =
          static_cast<std::size_t>(cost) - static_cast<std::size_t>(Cost::kFirstLink);
      const auto bit = static_cast<std::uint8_t>(1u << (link / 2));
      fabric::LinkRemoval& links = removal.what_if.links;
      (link % 2 == 0 ? links.latency : links.bandwidth) = bit;
    }
  }
  return removal;
}

}  // namespace orrery::devices
