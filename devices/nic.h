// A device's NIC: begins the requests of its queue pairs and knows which of them are acknowledged.
//
// A request becomes known some time after it was posted (doorbell, fetch of its descriptor). Those
// of a queue pair are begun in that order, at most `window` at a time; one with a fence flag when
// all earlier ones are acknowledged. All queue pairs share the message rate and the pipe to memory,
// first come, first served.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "devices/costs.h"
#include "devices/store_port.h"
#include "emu/engine.h"

namespace orrery::devices {

class NetworkInterface {
 public:
  static constexpr std::uint32_t kReadyKind = fabric::kFirstDeviceKind + 3;

  NetworkInterface(emu::Engine& engine, StorePort& port, const Costs& costs, fabric::NodeId node,
                   std::uint32_t ranks);

  struct Request {
    std::uint32_t put;   // its number at the port
    std::uint32_t pair;  // queue pair
    bool fenced;         // begun when all earlier ones of its queue pair are acknowledged
  };

  /// The number of queue pair `queue` (modulo NicCosts::queue_pairs) to `rank`.
  std::uint32_t pair_to(std::uint32_t rank, std::uint32_t queue) const {
    return rank * pairs_per_peer_ + queue % pairs_per_peer_;
  }
  /// Whether the queue pair takes one more request.
  bool has_room(std::uint32_t pair) const {
    return costs_.queue_depth == 0 || pairs_[pair].posted < costs_.queue_depth;
  }
  /// Posts a request at time `at` (≥ now).
  void post(const Request& request, emu::Time at);
  /// A request is known to the NIC (kReadyKind).
  void ready(std::uint32_t put, emu::Time now);
  /// A put that was posted here is acknowledged.
  void acknowledged(std::uint32_t put, emu::Time now);

 private:
  struct Pair {
    std::uint32_t posted = 0;     // and not acknowledged
    std::uint32_t begun = 0;      // and not acknowledged
    std::deque<Request> waiting;  // known and not begun
  };
  void begin_waiting(Pair& pair, emu::Time now);

  emu::Shard& shard_;
  StorePort& port_;
  const NicCosts& costs_;
  const fabric::NodeId node_;
  const std::uint32_t pairs_per_peer_;
  std::vector<Pair> pairs_;
  std::vector<Request> requests_;  // by put
  emu::Time free_ = 0;             // when the next request may be begun
};

}  // namespace orrery::devices
