// Event descriptors and payload between processes: byte streams over a Transport, batched per
// window and destination, with back-pressure in host time (design section 4).
//
// Per window, on every process:
//   send events and payloads …; auto min = exchange.close_window(values);  exchange has then handed
//   every event and payload that any peer sent in this window to the sink.
//
// A sender whose ring at the target is full flushes, publishes what it has, and drains its own
// rings until the target has made room; a target drains while it waits for anything. So nothing is
// lost and no two processes wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emu/event.h"
#include "emu/process_group.h"
#include "emu/transport.h"

namespace orrery::emu {

/// Receives what peers sent. Both calls copy what they keep: the memory is recycled on return. They
/// come from inside any call of Exchange and must not call it themselves. What one process sent
/// arrives in its order.
class ExchangeSink {
 public:
  virtual ~ExchangeSink() = default;
  virtual void on_event(const Event& event) = 0;
  /// The `number`-th payload (from 0) that process `source` sent to this one.
  virtual void on_payload(int source, std::uint64_t number, std::span<const std::byte> bytes) = 0;
};

class Exchange {
 public:
  /// Largest payload of one send_payload(): the largest packet and a little beside it.
  static constexpr std::size_t kMaxPayloadBytes = 64 * 1024 + 64;

  /// Collective. `ring_bytes` of landing memory per peer, the same on all processes, raised to four
  /// times the largest record; 0 picks by the number of processes.
  Exchange(const ProcessGroup& processes, Transport& transport, ExchangeSink& sink,
           std::size_t ring_bytes = 0);
  ~Exchange();

  /// Room for one event to `process` (≠ this one), to be filled in place before the next call.
  Event& send_event(int process);

  /// Sends `bytes` (≤ kMaxPayloadBytes; copied) to `process` (≠ this one). Returns its number: the
  /// count of payloads sent to that process before.
  std::uint64_t send_payload(int process, std::span<const std::byte> bytes);

  /// Ends the window: everything sent is in place at its target, `values` become their minima over
  /// all processes, and everything that peers sent in this window has been given to the sink. Peers
  /// that are already in the next window may have added the beginning of that.
  void close_window(std::span<std::int64_t> values);

  /// Takes in what has landed so far and progresses the transport; to be called now and then by a
  /// process that is busy with a long window.
  void poll();

 private:
  struct Peer;

  std::byte* reserve(int process, std::uint32_t kind, std::uint32_t bytes);
  std::byte* take_chunk();
  void put_chunk(int process, std::size_t skip);
  void wait_for_room(int process, std::size_t bytes);
  void put_word(int process, std::size_t word, std::span<const std::byte> bytes);
  void flush();
  void take_in();
  void consume(int process);

  const ProcessGroup& processes_;
  Transport& transport_;
  ExchangeSink& sink_;
  std::size_t ring_bytes_ = 0;
  std::uint64_t window_ = 0;
  std::unique_ptr<Peer[]> peers_;
  /// Staging memory: chunks being filled belong to a Peer; those put wait for the next flush.
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::byte*> free_chunks_;
  std::vector<std::byte*> chunks_in_flight_;
};

}  // namespace orrery::emu
