#include "devices/proxy.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::devices {

Proxy::Proxy(emu::Engine& engine, NetworkInterface& nic, Sink& sink, Counters& counters,
             const Costs& costs, fabric::NodeId node, std::uint32_t ranks)
    : shard_(engine.shard_of(node)),
      nic_(nic),
      sink_(sink),
      counters_(counters),
      costs_(*costs.nic),
      node_(node),
      threads_(costs_.proxies) {
  for (Thread& thread : threads_) thread.posted_to.resize(ranks, 0);
}

emu::Time Proxy::cost_of(const Request& request) const {
  switch (request.kind) {
    case Request::Kind::kPost:
      return costs_.proxy_post;
    case Request::Kind::kApply:
      return costs_.proxy_apply;
    case Request::Kind::kFence:
      break;
  }
  return 0;
}

void Proxy::submit(std::uint32_t number, const Request& request, emu::Time at) {
  Thread& thread = threads_[number];
  thread.ring.push_back({request, at + costs_.doorbell});
  if (!thread.busy && !thread.stuck) take_next(number, shard_.now());
}

void Proxy::receive(const fabric::Packet& packet, emu::Time now) {
  Request request;
  request.kind = Request::Kind::kApply;
  request.signal = packet;
  const std::uint32_t number = thread_of(packet.channel);
  threads_[number].ring.push_back({request, now});
  if (!threads_[number].busy && !threads_[number].stuck) take_next(number, now);
}

void Proxy::take_next(std::uint32_t number, emu::Time now) {
  Thread& thread = threads_[number];
  if (thread.ring.empty()) return;
  const Item& item = thread.ring.front();
  thread.busy = true;
  const emu::Time end = std::max({now, thread.free, item.arrives}) + cost_of(item.request);
  shard_.schedule(node_, node_, end, kDoneKind).as<std::uint32_t>() = number;
}

void Proxy::done(std::uint32_t number, emu::Time now) {
  Thread& thread = threads_[number];
  thread.busy = false;
  if (finish(number, now)) {
    take_next(number, now);
  } else {
    thread.stuck = true;
    thread.stuck_since = now;
    if (thread.ring.front().request.kind == Request::Kind::kFence) ++counters_.proxy_fence_waits;
  }
}

bool Proxy::must_wait(const Thread& thread, const Request& request) const {
  if (request.kind == Request::Kind::kPost) return !nic_.has_room(request.post.pair);
  if (request.kind == Request::Kind::kApply) return false;
  switch (costs_.fence) {
    case Nic::NOTHING:
      return false;
    case Nic::DESTINATION:
      return request.rank == kEveryRank ? thread.posted > 0 : thread.posted_to[request.rank] > 0;
    case Nic::ENDPOINT:
      break;
  }
  return thread.posted > 0;
}

// False if the first of the ring cannot be finished yet.
bool Proxy::finish(std::uint32_t number, emu::Time now) {
  Thread& thread = threads_[number];
  const Request& request = thread.ring.front().request;
  if (must_wait(thread, request)) return false;
  if (request.kind == Request::Kind::kPost) {
    if (request.post.put >= posted_.size()) posted_.resize(request.post.put + 1);
    posted_[request.post.put] = {number, request.rank};
    ++thread.posted;
    ++thread.posted_to[request.rank];
    nic_.post(request.post, now);
  } else if (request.kind == Request::Kind::kApply) {
    sink_.applied(request.signal);
  }
  thread.free = std::max(thread.free, now);
  thread.ring.pop_front();
  return true;
}

void Proxy::acknowledged(std::uint32_t put, emu::Time now) {
  const Posted posted = posted_[put];
  Thread& thread = threads_[posted.thread];
  --thread.posted;
  --thread.posted_to[posted.rank];
  thread.free = std::max(thread.free, now) + costs_.completion;
  if (!thread.stuck) return;
  const bool fence = thread.ring.front().request.kind == Request::Kind::kFence;
  const emu::Time since = thread.stuck_since;
  if (!finish(posted.thread, now)) return;
  if (fence) counters_.proxy_fence_ps += static_cast<std::uint64_t>(now - since);
  thread.stuck = false;
  take_next(posted.thread, now);
}

std::vector<std::string> Proxy::waiting() const {
  std::vector<std::string> lines;
  for (std::size_t number = 0; number < threads_.size(); ++number) {
    const Thread& thread = threads_[number];
    if (!thread.stuck) continue;
    const bool fence = thread.ring.front().request.kind == Request::Kind::kFence;
    lines.push_back(fmt::format(
        "proxy thread {} waits {}: {} of its requests are not acknowledged, {} wait behind it",
        number, fence ? "at a fence" : "for room in a queue pair", thread.posted,
        thread.ring.size() - 1));
  }
  return lines;
}

}  // namespace orrery::devices
