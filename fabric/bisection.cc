#include "fabric/bisection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace orrery::fabric {
namespace {

using Flow = std::int64_t;  // MB/s

class MaxFlow {
 public:
  explicit MaxFlow(std::uint32_t nodes) : first_(nodes, kNone), level_(nodes), next_(nodes) {}

  void add_edge(std::uint32_t from, std::uint32_t to, Flow capacity) {
    half_edge(from, to, capacity);
    half_edge(to, from, 0);
  }

  Flow run(std::uint32_t source, std::uint32_t sink) {
    Flow total = 0;
    while (level_nodes(source, sink)) {
      next_ = first_;
      while (const Flow pushed = push_path(source, sink)) total += pushed;
    }
    return total;
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;
    Flow left;
  };

  void half_edge(std::uint32_t from, std::uint32_t to, Flow capacity) {
    edges_.push_back({to, first_[from], capacity});
    first_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
  }

  bool level_nodes(std::uint32_t source, std::uint32_t sink) {
    std::fill(level_.begin(), level_.end(), kNone);
    level_[source] = 0;
    queue_.assign(1, source);
    for (std::size_t head = 0; head < queue_.size(); ++head) {
      for (std::uint32_t e = first_[queue_[head]]; e != kNone; e = edges_[e].next) {
        if (edges_[e].left == 0 || level_[edges_[e].to] != kNone) continue;
        level_[edges_[e].to] = level_[queue_[head]] + 1;
        queue_.push_back(edges_[e].to);
      }
    }
    return level_[sink] != kNone;
  }

  // One augmenting path, without recursion: a graph may be a long chain.
  Flow push_path(std::uint32_t source, std::uint32_t sink) {
    path_.clear();
    for (std::uint32_t node = source; node != sink;) {
      std::uint32_t& e = next_[node];
      while (e != kNone && (edges_[e].left == 0 || level_[edges_[e].to] != level_[node] + 1))
        e = edges_[e].next;
      if (e != kNone) {
        path_.push_back(e);
        node = edges_[e].to;
      } else {
        if (path_.empty()) return 0;
        node = edges_[path_.back() ^ 1].to;
        next_[node] = edges_[next_[node]].next;
        path_.pop_back();
      }
    }
    Flow pushed = std::numeric_limits<Flow>::max();
    for (const std::uint32_t e : path_) pushed = std::min(pushed, edges_[e].left);
    for (const std::uint32_t e : path_) {
      edges_[e].left -= pushed;
      edges_[e ^ 1].left += pushed;
    }
    return pushed;
  }

  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> level_;
  std::vector<std::uint32_t> next_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint32_t> path_;
};

}  // namespace

double bisection_gb_per_s(const Topology& topology) {
  if (topology.devices < 2) return 0;
  const std::uint32_t source = topology.nodes();
  const std::uint32_t sink = source + 1;
  MaxFlow flow(topology.nodes() + 2);
  std::vector<Flow> out(topology.nodes(), 0);
  std::vector<Flow> in(topology.nodes(), 0);
  for (const Link& link : topology.links) {
    const auto capacity = static_cast<Flow>(std::llround(link.rate.gb_per_s() * 1e3));
    flow.add_edge(link.from, link.to, capacity);
    out[link.from] += capacity;
    in[link.to] += capacity;
  }
  for (NodeId device = 0; device < topology.devices; ++device) {
    if (device < topology.devices / 2) {
      flow.add_edge(source, device, out[device]);
    } else {
      flow.add_edge(device, sink, in[device]);
    }
  }
  return static_cast<double>(flow.run(source, sink)) / 1e3;
}

}  // namespace orrery::fabric
