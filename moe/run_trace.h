// The history of a run, for whoever draws it: what was asked for and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/cluster.h"
#include "emu/recorder.h"
#include "emu/recording.h"
#include "emu/time.h"

namespace orrery::moe {

struct TraceRequest {
  static constexpr std::uint64_t kDefaultMaxEvents = 1'000'000;

  std::vector<std::uint32_t> devices;  // ranks, each below the run's; empty: all
  emu::Time from = 0;
  emu::Time to = emu::kNever;
  std::uint64_t max_events = kDefaultMaxEvents;  // see emu::RecordLimits
};

struct RunTrace {
  struct LinkClass {
    std::string name;
    std::uint64_t links_used;  // that carried a packet
  };

  emu::Recording recording;  // its logical processes are ranks, its tracks cores
  std::vector<LinkClass> link_classes;
  std::vector<std::string> parts;  // what devices::PathStep::part means
  std::uint64_t share = 0;         // events that each device could have
};

emu::RecordLimits record_limits(const TraceRequest& request, const devices::Cluster& cluster);

/// Collective; a value on process 0 alone.
std::optional<RunTrace> collect_trace(emu::Recorder& recorder, const devices::Cluster& cluster);

}  // namespace orrery::moe
