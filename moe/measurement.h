// Latencies, breakdowns, counters: from the records of all devices to a Result (design section 9).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/cluster.h"
#include "devices/critical_path.h"
#include "moe/result.pb.h"
#include "moe/stages.h"
#include "moe/step_time.h"

namespace orrery::moe {

/// Takes an iteration's records as soon as every device has ended it and keeps what the result
/// needs: causal records live no longer than their iteration.
class Measurement {
 public:
  Measurement(devices::Cluster& cluster, const Stages& stages, const Problem& problem);

  /// Collective: iteration `iteration` has ended on all devices.
  void fold(std::uint32_t iteration);
  /// Collective: fills operations, model, counters, busiest_links, virtual_time_us, digest.
  void finish(std::uint32_t iterations, Result& result);
  /// The critical path of each span's slowest device and iteration.
  std::vector<devices::CriticalPath> paths() const;
  /// Largest latency over all devices, by iteration, then span; -1 where it has none.
  const std::vector<std::vector<emu::Time>>& slowest() const { return slowest_; }

 private:
  struct Summary {
    std::vector<emu::Time> latencies;  // of this process's devices
    std::array<emu::Time, devices::kCategories> core_time{};
    std::uint64_t cores = 0;
    std::uint64_t wire_bytes = 0;
    emu::Time slowest = -1;  // over all devices
    std::uint32_t slowest_iteration = 0;
    devices::CriticalPath path;
  };

  // A device's records of the iteration, by stage, into a span's summary; gives its latency.
  static emu::Time add(const Span& span, const std::vector<const devices::KernelRecord*>& records,
                       Summary& summary);

  devices::Cluster& cluster_;
  const Stages& stages_;
  std::vector<Summary> spans_;
  std::optional<StepTime> step_time_;
  std::vector<std::vector<emu::Time>> slowest_;
  emu::Time first_start_ = emu::kNever;
  emu::Time last_end_ = 0;
};

}  // namespace orrery::moe
