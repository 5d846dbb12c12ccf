// One-sided communication between the MPI processes of a run: few verbs, four implementations.
//
//   auto transport = make_transport("ucx", processes);
//   auto landing = transport->expose(bytes);  // collective, once
//
//   transport->put(peer, offset, bytes);      // into the peer's landing memory
//   transport->flush();                       // all puts so far are in place at their targets
//   transport->start_min(values);
//   while (!transport->test_min(values)) {    // progresses
//   }
//
// Only the thread that made a transport may use it. A call may throw TransportError when a peer is
// lost. The destructor is collective too: it waits, progressing, until all processes are there.
// After a TransportError, or while an exception unwinds, it waits for nobody.
//
// UCX over TCP and libfabric's tcp provider emulate RMA in software: a put completes only while its
// *target* progresses. So no call here blocks without progressing, and callers that wait for
// something else must call progress() meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emu/process_group.h"

namespace orrery::emu {

class Transport {
 public:
  virtual ~Transport() = default;

  /// "local", "ucx", "ofi" or "mpi".
  virtual std::string name() const = 0;

  /// Collective over all processes, called exactly once, before any put: allocates `bytes` of
  /// landing memory that all peers can write, aligned to at least 64 bytes, contents undefined. The
  /// transport owns it (only memory that the library itself allocates is reachable by plain stores
  /// between the processes of one host). Sizes may differ between processes.
  virtual std::span<std::byte> expose(std::size_t bytes) = 0;

  /// Starts writing `bytes` at `offset` of the landing memory of `peer` (0 ≤ peer < size; itself
  /// too). `bytes` must stay unchanged until the next flush() returns. No order between two puts,
  /// nor between bytes of one put, before flush().
  virtual void put(int peer, std::uint64_t offset, std::span<const std::byte> bytes) = 0;

  /// Returns when all puts of this process so far are in place at their targets: a target that
  /// learns of the flush by any later message (start_min counts) reads the new bytes. Progresses
  /// while it waits.
  virtual void flush() = 0;

  /// Lets the emulated RMA of peers advance. Cheap; yields nothing.
  virtual void progress() = 0;

  /// Starts an element-wise minimum over all processes; every process passes as many values. One
  /// reduction at a time. Its completion implies that every process has started it.
  virtual void start_min(std::span<const std::int64_t> values) = 0;

  /// True once the reduction is complete, with the minima in `values`. Progresses; yields the core
  /// after a short spin when there are more processes than cores.
  virtual bool test_min(std::span<std::int64_t> values) = 0;

  /// start_min() and test_min() until done.
  void reduce_min(std::span<std::int64_t> values) {
    start_min(values);
    while (!test_min(values)) {
    }
  }
};

/// Names that make_transport() takes, "auto" first.
std::vector<std::string> transport_names();

/// Collective. `name`: "auto" (local for one process, else ucx), "local", "ucx", "ofi" or "mpi".
/// Throws ConfigError for an unknown name and for "local" with more than one process,
/// TransportError when the library under it cannot start.
std::unique_ptr<Transport> make_transport(const std::string& name, const ProcessGroup& processes);

}  // namespace orrery::emu
