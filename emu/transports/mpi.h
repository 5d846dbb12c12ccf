// MPI RMA: one window that stays locked for all; runs wherever MPI does.
//
// The window is allocated by MPI (osc/sm and its like: plain stores between the processes of one
// host) and never opened with MPI_Win_create, which Open MPI 4.1 serves by osc/rdma with its known
// faults.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "emu/transport.h"
#include "emu/transports/min_reduction.h"

namespace orrery::emu {

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const ProcessGroup& processes);
  ~MpiTransport() override;

  std::string name() const override { return "mpi"; }
  std::span<std::byte> expose(std::size_t bytes) override;
  void put(int to, std::uint64_t offset, std::span<const std::byte> bytes) override;
  void flush() override;
  void progress() override;
  void start_min(std::span<const std::int64_t> values) override { reduction_.start(values); }
  bool test_min(std::span<std::int64_t> values) override;

 private:
  struct Peer {
    std::uint64_t landing_at = 0;  // in the peer's window
    std::uint64_t landing_bytes = 0;
  };

  const ProcessGroup& processes_;
  MinReduction reduction_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::span<std::byte> landing_;
  std::vector<Peer> peers_;
  bool unflushed_ = false;
};

}  // namespace orrery::emu
