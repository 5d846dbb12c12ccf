// The minimum-reduction of the transports that run under MPI: one MPI_Iallreduce at a time.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "emu/idle.h"
#include "emu/process_group.h"

namespace orrery::emu {

class MinReduction {
 public:
  /// Collective. A group without MPI reduces over itself.
  explicit MinReduction(const ProcessGroup& processes);
  ~MinReduction();
  MinReduction(const MinReduction&) = delete;
  MinReduction& operator=(const MinReduction&) = delete;

  void start(std::span<const std::int64_t> values);
  /// True once complete, with the minima in `values`. Progresses MPI; yields after a short spin.
  bool test(std::span<std::int64_t> values);
  MPI_Comm comm() const { return comm_; }

 private:
  const ProcessGroup& processes_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> minima_;
  bool running_ = false;
  Idle idle_;
};

}  // namespace orrery::emu
