// What a step of a whole model takes, from the layers of it that were emulated.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/device_process.h"
#include "emu/process_group.h"
#include "emu/time.h"
#include "moe/problem.h"
#include "moe/result.pb.h"
#include "moe/stages.h"

namespace orrery::moe {

/// Of a run with stages.whole_model(), on one process.
class StepTime {
 public:
  StepTime(const Stages& stages, const Problem& problem);

  /// One device's records of an iteration, by stage, after those of all devices of the iteration
  /// before.
  void add(std::uint32_t iteration, const std::vector<const devices::KernelRecord*>& records);
  /// Collective, when all iterations are in.
  ModelTime finish(const emu::ProcessGroup& processes) const;

 private:
  // Sums over the devices of this process.
  struct Layer {
    std::vector<emu::Time> stages;
    emu::Time end = 0;
  };

  const Stages& stages_;
  const Problem& problem_;
  std::vector<emu::Time> once_;  // the slowest device's, by stage
  emu::Time begin_ = 0;          // of the first layer, as Layer::end
  std::vector<Layer> layers_;
};

}  // namespace orrery::moe
