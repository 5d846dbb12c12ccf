// The MPI processes of a run. Alone (not started by mpirun or srun) there is one and MPI is never
// touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery::emu {

struct Communicator;  // MPI's handle: emu/mpi_check.h

/// Owns MPI's lifetime: the constructor calls MPI_Init when a launcher started this process (its
/// environment says so: Open MPI, PMIx, PMI), the destructor MPI_Finalize. One per program.
class ProcessGroup {
 public:
  /// `argc` and `argv` as main() got them. Throws ConfigError when the launcher belongs to another
  /// MPI than the one this program is linked with, TransportError when MPI does not start.
  ProcessGroup(int* argc, char*** argv);
  /// A group of one without MPI: for tests and for engines inside other programs.
  ProcessGroup();
  /// The processes of `parent` that give the same `colour` (0 or more), in their order there.
  /// Collective over `parent`, which must live longer. A group of one does without MPI. What breaks
  /// a part breaks the whole. Its destructor is collective over the part.
  ProcessGroup(const ProcessGroup& parent, int colour);
  /// Calls MPI_Finalize (the whole group alone), which waits for all processes: so not after fail()
  /// and not while an exception unwinds. The launcher then ends the other processes.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Processes on this host, this one included.
  int local_size() const { return local_size_; }
  bool uses_mpi() const { return uses_mpi_; }
  /// True if this host runs more processes (of the whole group) than they may use cores: then
  /// whoever waits should yield at once.
  bool oversubscribed() const { return oversubscribed_; }

  /// Marks the group as broken, so that no destructor waits for a peer any more, and throws
  /// TransportError.
  [[noreturn]] void fail(const std::string& what) const;
  bool failed() const { return failed_; }

  /// Collectives. Each progresses only MPI: call them before a Transport carries puts or after a
  /// flush and a reduction, never while a peer may wait for this process's progress.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) const;
  /// Concatenation in rank order, at rank 0; empty elsewhere.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) const;
  void broadcast(std::span<std::byte> data, int root) const;
  std::int64_t max(std::int64_t value) const;
  std::int64_t sum(std::int64_t value) const;
  void barrier() const;
  /// A barrier that takes next to no time of the core while it waits: for the end of work that
  /// lasts longer on some processes than on others. `waiting` is called now and then.
  void patient_barrier(const std::function<void()>& waiting) const;

  const Communicator* communicator() const { return communicator_.get(); }

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  bool uses_mpi_ = false;
  bool oversubscribed_ = false;
  mutable bool failed_ = false;
  const ProcessGroup* parent_ = nullptr;
  std::unique_ptr<Communicator> communicator_;  // null without MPI
};

}  // namespace orrery::emu
