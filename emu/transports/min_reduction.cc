#include "emu/transports/min_reduction.h"

#include <algorithm>
#include <exception>

#include "emu/errors.h"
#include "emu/mpi_check.h"

namespace orrery::emu {

MinReduction::MinReduction(const ProcessGroup& processes)
    : processes_(processes), idle_(processes.oversubscribed()) {
  if (!processes.uses_mpi()) return;
  check_mpi(processes, MPI_Comm_dup(comm_of(processes), &comm_), "MPI_Comm_dup");
}

MinReduction::~MinReduction() {
  // A reduction that is under way, or a peer that is gone, would make this wait.
  if (comm_ == MPI_COMM_NULL || running_ || processes_.failed() || std::uncaught_exceptions() > 0)
    return;
  MPI_Comm_free(&comm_);
}

void MinReduction::start(std::span<const std::int64_t> values) {
  if (running_)
    throw InvariantError("a second reduction was started before the first was complete");
  running_ = true;
  idle_.reset();
  mine_.assign(values.begin(), values.end());
  minima_ = mine_;
  if (comm_ == MPI_COMM_NULL) return;
  check_mpi(processes_,
            MPI_Iallreduce(mine_.data(), minima_.data(), static_cast<int>(mine_.size()),
                           MPI_INT64_T, MPI_MIN, comm_, &request_),
            "MPI_Iallreduce");
}

bool MinReduction::test(std::span<std::int64_t> values) {
  if (!running_) throw InvariantError("no reduction was started");
  if (values.size() != minima_.size()) throw InvariantError("a reduction changed its length");
  if (comm_ != MPI_COMM_NULL) {
    int done = 0;
    check_mpi(processes_, MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      idle_.pause();
      return false;
    }
  }
  running_ = false;
  std::copy(minima_.begin(), minima_.end(), values.begin());
  return true;
}

}  // namespace orrery::emu
