// Runs the points of a sweep: spread over processes and threads, each recorded as it finishes.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cli/sweep.pb.h"
#include "cli/sweep_folder.h"
#include "cli/sweep_plan.h"
#include "cli/sweep_progress.h"
#include "emu/process_group.h"

namespace orrery::cli {

/// How a sweep uses the machine. Changes no point's result.
struct SweepMachinery {
  int processes_per_point = 1;
  int threads = 1;                  // points side by side in a process
  std::string point_threads = "1";  // --threads of each point
  std::string transport = "auto";
};

/// Throws ConfigError for what the processes at hand cannot do.
void check_machinery(const SweepMachinery& machinery, const emu::ProcessGroup& processes);

/// One point over the processes of `part`, which all get the same record. A configuration that is
/// refused, a hang and a failed verification are outcomes. In a part of one, so is anything else
/// that goes wrong in the run; in a larger one that is thrown, as its other processes may be
/// anywhere.
PointRecord run_point(const emu::ProcessGroup& part, const SweepPlan& plan, std::size_t number,
                      const SweepMachinery& machinery, const std::function<void()>& progress);

/// Runs the points `missing`; returns when all processes are done. Collective.
void run_points(const emu::ProcessGroup& processes, const SweepPlan& plan,
                const std::vector<std::size_t>& missing, const SweepMachinery& machinery,
                SweepFolder& folder, SweepProgress& progress);

}  // namespace orrery::cli
