#include "fabric/routing.h"

#include <string>
#include <unordered_map>

#include "emu/errors.h"
#include "fabric/device_groups.h"

namespace orrery::fabric {
namespace {

constexpr std::size_t kMaxTableEntries = 1u << 28;
constexpr std::uint32_t kFar = ~std::uint32_t{0};
// A direct range may have this many entries per link before a sorted list is the better bargain.
constexpr std::uint64_t kDirectSparsity = 16;

}  // namespace

class Routing::Builder {
 public:
  explicit Builder(Routing& routing) : routing_(routing), topology_(routing.topology_) {}

  void build() {
    routing_.lists_.assign({{0, 0}, {0, 0}});  // kNoPath, kCutOff
    routing_.nodes_.resize(topology_.nodes());
    for (NodeId node = 0; node < topology_.nodes(); ++node) {
      routing_.nodes_[node].first_link = topology_.first_link[node];
      add_direct(node);
    }
    DeviceGroups groups(topology_);
    routing_.groups_ = static_cast<std::uint32_t>(groups.entrances.size());
    routing_.group_of_ = std::move(groups.group_of);
    find_domains_of_groups();
    link_backwards();
    decided_.assign(topology_.nodes(), false);
    for (std::uint32_t group = 0; group < routing_.groups_; ++group)
      add_group(group, groups.entrances[group]);
    for (NodeId node = 0; node < topology_.nodes(); ++node) {
      if (!decided_[node]) routing_.nodes_[node].row = kSame | kNoPath;
    }
  }

 private:
  // Direct links by destination, parallel ones in one list; of a device also the links to all
  // others of its domain.
  void add_direct(NodeId node) {
    const std::span<const Link> links = topology_.links_from(node);
    direct_.clear();
    for (std::uint32_t i = 0; i < links.size(); ++i) {
      if (topology_.is_device(links[i].to)) direct_.emplace_back(links[i].to, i);
    }
    if (topology_.is_device(node)) add_domain(node);
    if (direct_.empty()) return;
    std::sort(direct_.begin(), direct_.end());
    Node& entry = routing_.nodes_[node];
    entry.direct_low = direct_.front().first;
    entry.direct_span = direct_.back().first - direct_.front().first + 1;
    entry.direct_first = static_cast<std::uint32_t>(routing_.direct_.size());
    const auto distinct = static_cast<std::uint32_t>(distinct_devices());
    const bool sparse = entry.direct_span > kDirectSparsity * distinct;
    if (sparse) entry.direct_sorted = distinct;
    check_size(routing_.direct_.size() + (sparse ? 2 * distinct : entry.direct_span));
    routing_.direct_.resize(routing_.direct_.size() + (sparse ? 2 * distinct : entry.direct_span),
                            kNoPath);
    std::uint32_t* const slots = routing_.direct_.data() + entry.direct_first;
    std::uint32_t nth = 0;
    for (std::size_t i = 0; i < direct_.size(); ++nth) {
      const NodeId device = direct_[i].first;
      scratch_.clear();
      for (; i < direct_.size() && direct_[i].first == device; ++i) {
        if (direct_[i].second != kNoLink) scratch_.push_back(direct_[i].second);
      }
      if (sparse) slots[nth] = device;
      slots[sparse ? distinct + nth : device - entry.direct_low] =
          scratch_.empty() ? kCutOff : list_number();
    }
  }

  bool has_domains() const {
    return !topology_.scale_up_domain.empty() &&
           topology_.scale_up_class < topology_.link_classes.size();
  }

  // The others of a device's domain: each with kNoLink, for where no link is left, and with the
  // links to the switches that lead to it. Domains are runs of devices.
  void add_domain(NodeId device) {
    if (!has_domains()) return;
    const std::vector<std::uint32_t>& domain = topology_.scale_up_domain;
    const auto is_peer = [&](NodeId node) {
      return node != device && topology_.is_device(node) && domain[node] == domain[device];
    };
    for (NodeId peer = device; peer > 0 && is_peer(peer - 1);)
      direct_.emplace_back(--peer, kNoLink);
    for (NodeId peer = device + 1; is_peer(peer); ++peer) direct_.emplace_back(peer, kNoLink);
    check_size(routing_.direct_.size() + direct_.size());
    const std::span<const Link> links = topology_.links_from(device);
    for (std::uint32_t i = 0; i < links.size(); ++i) {
      if (links[i].link_class != topology_.scale_up_class || topology_.is_device(links[i].to))
        continue;
      NodeId last = kNoNode;
      for (const Link& down : topology_.links_from(links[i].to)) {
        if (down.to != last && is_peer(down.to)) direct_.emplace_back(down.to, i);
        last = down.to;
      }
    }
  }

  // True if every device of the group is in the domain of `node`, which then looks them up
  // directly.
  bool is_of_domain(NodeId node, std::uint32_t group) const {
    return has_domains() && topology_.is_device(node) &&
           domain_of_group_[group] == topology_.scale_up_domain[node];
  }

  void find_domains_of_groups() {
    if (!has_domains()) return;
    domain_of_group_.assign(routing_.groups_, kNoDomain);
    for (NodeId device = 0; device < topology_.devices; ++device) {
      std::uint32_t& domain = domain_of_group_[routing_.group_of_[device]];
      const std::uint32_t own = topology_.scale_up_domain[device];
      domain = domain == kNoDomain || domain == own ? own : kSeveralDomains;
    }
  }

  std::size_t distinct_devices() const {
    std::size_t count = 1;
    for (std::size_t i = 1; i < direct_.size(); ++i)
      count += direct_[i].first != direct_[i - 1].first ? 1 : 0;
    return count;
  }

  void check_size(std::size_t entries) const {
    if (entries <= kMaxTableEntries) return;
    throw emu::ConfigError("fabric", "",
                           std::to_string(topology_.devices) + " devices in so irregular a graph",
                           "fewer: its routing tables would take more than 1 GiB");
  }

  void link_backwards() {
    into_first_.assign(topology_.nodes() + 1, 0);
    for (const Link& link : topology_.links) ++into_first_[link.to + 1];
    for (std::size_t i = 1; i < into_first_.size(); ++i) into_first_[i] += into_first_[i - 1];
    std::vector<std::uint32_t> next(into_first_.begin(), into_first_.end() - 1);
    into_.resize(topology_.links.size());
    for (const Link& link : topology_.links) into_[next[link.to]++] = {link.from, length(link)};
  }

  std::uint32_t length(const Link& link) const { return topology_.class_length[link.link_class]; }

  // Distances by Dijkstra's algorithm; lengths are small, so a list per distance is the queue.
  void find_distances(const std::vector<NodeId>& entrances) {
    distance_.assign(topology_.nodes(), kFar);
    for (std::vector<NodeId>& nodes : reached_) nodes.clear();
    reached_[1] = entrances;
    for (const NodeId node : entrances) distance_[node] = 1;
    for (std::size_t distance = 1; distance < reached_.size(); ++distance) {
      for (std::size_t head = 0; head < reached_[distance].size(); ++head) {
        const NodeId node = reached_[distance][head];
        if (distance_[node] != distance || hands_on_nothing(node)) continue;
        for (std::uint32_t i = into_first_[node]; i < into_first_[node + 1]; ++i) {
          const auto [previous, length] = into_[i];
          const auto through = static_cast<std::uint32_t>(distance) + length;
          if (distance_[previous] <= through) continue;
          distance_[previous] = through;
          if (through >= reached_.size()) reached_.resize(through + 1);
          reached_[through].push_back(previous);
        }
      }
    }
  }

  void add_group(std::uint32_t group, const std::vector<NodeId>& entrances) {
    find_distances(entrances);
    for (NodeId node = 0; node < topology_.nodes(); ++node) {
      if (distance_[node] == 1 || is_of_domain(node, group)) continue;  // never looks here
      scratch_.clear();
      if (distance_[node] != kFar) {
        const std::span<const Link> links = topology_.links_from(node);
        for (std::uint32_t i = 0; i < links.size(); ++i) {
          const std::uint32_t behind = distance_[links[i].to];
          if (behind == kFar || behind + length(links[i]) != distance_[node]) continue;
          if (!hands_on_nothing(links[i].to)) scratch_.push_back(i);
        }
      }
      decide(node, group, list_number());
    }
  }

  // Packets end here or go another way.
  bool hands_on_nothing(NodeId node) const {
    return !topology_.devices_forward && topology_.is_device(node);
  }

  // A node has one list for all groups until a group needs another; then it gets a row.
  void decide(NodeId node, std::uint32_t group, ListId list) {
    Node& entry = routing_.nodes_[node];
    if (!decided_[node]) {
      decided_[node] = true;
      entry.row = kSame | list;
      return;
    }
    if ((entry.row & kSame) != 0) {
      const ListId same = entry.row & ~kSame;
      if (same == list) return;
      entry.row = rows_++;
      check_size(std::size_t{rows_} * routing_.groups_);
      routing_.table_.resize(std::size_t{rows_} * routing_.groups_, same);
    }
    routing_.table_[std::size_t{entry.row} * routing_.groups_ + group] = list;
  }

  // The number of the list in scratch_, new or known.
  ListId list_number() {
    if (scratch_.empty()) return kNoPath;
    if (equals(last_)) return last_;
    std::uint64_t hash = scratch_.size();
    for (const std::uint32_t link : scratch_)
      hash = (hash ^ link) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
    for (auto [at, end] = known_.equal_range(hash); at != end; ++at) {
      if (equals(at->second)) return last_ = at->second;
    }
    last_ = static_cast<ListId>(routing_.lists_.size());
    routing_.lists_.push_back({static_cast<std::uint32_t>(routing_.relative_links_.size()),
                               static_cast<std::uint32_t>(scratch_.size())});
    routing_.relative_links_.insert(routing_.relative_links_.end(), scratch_.begin(),
                                    scratch_.end());
    known_.emplace(hash, last_);
    return last_;
  }

  bool equals(ListId id) const {
    const List& list = routing_.lists_[id];
    return list.count == scratch_.size() &&
           std::equal(scratch_.begin(), scratch_.end(),
                      routing_.relative_links_.begin() + list.first);
  }

  Routing& routing_;
  const Topology& topology_;
  std::uint32_t rows_ = 0;
  std::vector<bool> decided_;
  static constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};
  static constexpr std::uint32_t kSeveralDomains = kNoDomain - 1;
  std::vector<std::uint32_t> domain_of_group_;
  struct Into {
    NodeId from;
    std::uint32_t length;
  };
  std::vector<std::uint32_t> into_first_;  // the links into node n: into_[into_first_[n] …)
  std::vector<Into> into_;
  std::vector<std::uint32_t> distance_;  // from a node to the group's devices
  std::vector<std::vector<NodeId>> reached_ = std::vector<std::vector<NodeId>>(2);  // by distance
  std::vector<std::pair<NodeId, std::uint32_t>> direct_;
  std::vector<std::uint32_t> scratch_;
  ListId last_ = kNoPath;
  std::unordered_multimap<std::uint64_t, ListId> known_;
};

Routing::Routing(const Topology& topology) : topology_(topology) { Builder(*this).build(); }

int Routing::hops(NodeId source, NodeId destination) const {
  int count = 0;
  for (NodeId node = source; node != destination; ++count) {
    const LinkId link = next_link(node, destination, 0);
    if (link == kNoLink) return -1;
    node = topology_.links[link].to;
  }
  return count;
}

int Routing::switches(NodeId source, NodeId destination) const {
  int count = 0;
  for (NodeId node = source; node != destination;) {
    const LinkId link = next_link(node, destination, 0);
    if (link == kNoLink) return -1;
    node = topology_.links[link].to;
    count += topology_.is_device(node) ? 0 : 1;
  }
  return count;
}

emu::Time Routing::latency(NodeId source, NodeId destination, std::uint32_t choice) const {
  emu::Time sum = 0;
  for (NodeId node = source; node != destination;) {
    const Step step = next_step(node, destination, choice);
    if (step.link == kNoLink) return emu::kNever;
    const Link& link = topology_.links[step.link];
    sum += link.latency;
    node = link.to;
    choice = step.choice;
  }
  return sum;
}

std::size_t Routing::table_bytes() const {
  return nodes_.size() * sizeof(Node) + lists_.size() * sizeof(List) +
         (relative_links_.size() + direct_.size() + table_.size() + group_of_.size()) *
             sizeof(std::uint32_t);
}

}  // namespace orrery::fabric
