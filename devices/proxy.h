// The host's threads that post a device's requests to its NIC.
//
// A core writes a request into the ring of a thread, which takes the ring's requests one by one:
// posts a put, waits at a fence until what it posted is acknowledged, writes a signal that a peer's
// proxy sent. Whatever is behind a request that waits, waits too. A completion costs the thread
// time before its next request.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "devices/costs.h"
#include "devices/counters.h"
#include "devices/nic.h"
#include "emu/engine.h"
#include "fabric/packet.h"

namespace orrery::devices {

class Proxy {
 public:
  static constexpr std::uint32_t kDoneKind = fabric::kFirstDeviceKind + 4;

  /// What takes a signal of a peer when a thread has written it.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void applied(const fabric::Packet& packet) = 0;
  };

  Proxy(emu::Engine& engine, NetworkInterface& nic, Sink& sink, Counters& counters,
        const Costs& costs, fabric::NodeId node, std::uint32_t ranks);

  struct Request {
    enum class Kind : std::uint8_t { kPost, kFence, kApply } kind = Kind::kPost;
    NetworkInterface::Request post{};  // kPost
    std::uint32_t rank = 0;            // its destination; kFence: kEveryRank for all
    fabric::Packet signal{};           // kApply
  };
  static constexpr std::uint32_t kEveryRank = ~std::uint32_t{0};

  /// The thread that serves queue pair `queue`.
  std::uint32_t thread_of(std::uint32_t queue) const {
    return queue % static_cast<std::uint32_t>(threads_.size());
  }
  /// A core has written a request into the ring at time `at` (≥ now).
  void submit(std::uint32_t thread, const Request& request, emu::Time at);
  /// A signal from a peer's proxy has arrived.
  void receive(const fabric::Packet& packet, emu::Time now);
  /// A thread is through with a request (kDoneKind).
  void done(std::uint32_t thread, emu::Time now);
  /// A put that a thread posted is acknowledged; call NetworkInterface::acknowledged() first.
  void acknowledged(std::uint32_t put, emu::Time now);

  /// For the hang report: one line per thread that waits; empty if none does.
  std::vector<std::string> waiting() const;

 private:
  struct Item {
    Request request;
    emu::Time arrives;
  };
  struct Thread {
    std::deque<Item> ring;
    emu::Time free = 0;
    bool busy = false;   // works on the first of the ring until its event
    bool stuck = false;  // the first of the ring waits for acknowledgements
    emu::Time stuck_since = 0;
    std::uint64_t posted = 0;              // and not acknowledged
    std::vector<std::uint32_t> posted_to;  // by rank
  };
  struct Posted {
    std::uint32_t thread;
    std::uint32_t rank;
  };

  void take_next(std::uint32_t number, emu::Time now);
  bool finish(std::uint32_t number, emu::Time now);
  bool must_wait(const Thread& thread, const Request& request) const;
  emu::Time cost_of(const Request& request) const;

  emu::Shard& shard_;
  NetworkInterface& nic_;
  Sink& sink_;
  Counters& counters_;
  const NicCosts& costs_;
  const fabric::NodeId node_;
  std::vector<Thread> threads_;
  std::vector<Posted> posted_;  // by put
};

}  // namespace orrery::devices
