#include "devices/nic.h"

#include <algorithm>

namespace orrery::devices {

NetworkInterface::NetworkInterface(emu::Engine& engine, StorePort& port, const Costs& costs,
                                   fabric::NodeId node, std::uint32_t ranks)
    : shard_(engine.shard_of(node)),
      port_(port),
      costs_(*costs.nic),
      node_(node),
      pairs_per_peer_(costs_.queue_pairs),
      pairs_(std::size_t{ranks} * pairs_per_peer_) {}

void NetworkInterface::post(const Request& request, emu::Time at) {
  if (request.put >= requests_.size()) requests_.resize(request.put + 1);
  requests_[request.put] = request;
  ++pairs_[request.pair].posted;
  // A proxy's doorbell is part of its posting.
  const emu::Time seen = costs_.proxied ? at : at + costs_.doorbell;
  shard_.schedule(node_, node_, seen + costs_.descriptor_fetch, kReadyKind).as<std::uint32_t>() =
      request.put;
}

void NetworkInterface::ready(std::uint32_t put, emu::Time now) {
  Pair& pair = pairs_[requests_[put].pair];
  pair.waiting.push_back(requests_[put]);
  begin_waiting(pair, now);
}

void NetworkInterface::begin_waiting(Pair& pair, emu::Time now) {
  while (!pair.waiting.empty()) {
    const Request next = pair.waiting.front();
    if (next.fenced && pair.begun > 0) return;
    if (costs_.window > 0 && pair.begun >= costs_.window) return;
    pair.waiting.pop_front();
    ++pair.begun;
    free_ = std::max(now, free_) + costs_.message;
    port_.begin_posted(next.put, free_ + costs_.payload_fetch);
  }
}

void NetworkInterface::acknowledged(std::uint32_t put, emu::Time now) {
  Pair& pair = pairs_[requests_[put].pair];
  --pair.posted;
  --pair.begun;
  begin_waiting(pair, now);
}

}  // namespace orrery::devices
