#include "devices/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/errors.h"
#include "fabric/failures.h"
#include "fabric/placement.h"

namespace orrery::devices {

std::vector<int> assign_processes(const fabric::Topology& topology,
                                  const std::vector<fabric::NodeId>& ports, int processes) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> rank_of(topology.nodes(), kNone);
  std::vector<int> process_of(topology.nodes(), 0);
  const auto ranks = static_cast<std::uint64_t>(ports.size());
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    rank_of[ports[rank]] = static_cast<std::uint32_t>(rank);
    process_of[ports[rank]] =
        static_cast<int>(rank * static_cast<std::uint64_t>(processes) / ranks);
  }
  int next = 0;
  for (fabric::NodeId node = topology.devices; node < topology.nodes(); ++node) {
    if (topology.tier[node] > 1) {
      process_of[node] = next;
      next = (next + 1) % processes;
      continue;
    }
    std::uint32_t first = kNone;
    for (const fabric::Link& link : topology.links_from(node)) {
      if (topology.is_device(link.to)) first = std::min(first, rank_of[link.to]);
    }
    if (first != kNone) process_of[node] = process_of[ports[first]];
  }
  return process_of;
}

emu::Time lookahead_of(const fabric::Topology& topology, const std::vector<int>& assigned) {
  emu::Time lookahead = emu::kNever;
  for (const fabric::Link& link : topology.links) {
    if (assigned[link.from] != assigned[link.to]) lookahead = std::min(lookahead, link.latency);
  }
  return lookahead;
}

int pick_shards(const fabric::Topology& topology, const std::vector<fabric::NodeId>& ports,
                int processes, int threads) {
  if (threads == 1) return 1;
  // Measured on 64 to 768 dies: with 16 devices a shard's queue and memory stay in a cache.
  constexpr int kDevices = 16;
  constexpr int kMost = 64;  // outboxes grow with the square
  const int mine = std::max(1, static_cast<int>(ports.size()) / processes);
  const int wanted = std::clamp(mine / kDevices, threads, kMost);
  int best = 1;
  emu::Time best_lookahead = 0;
  for (int shards = std::min(mine, wanted); shards >= std::min(mine, threads); --shards) {
    const emu::Time lookahead =
        lookahead_of(topology, assign_processes(topology, ports, processes * shards));
    if (lookahead <= best_lookahead) continue;
    best = shards;
    best_lookahead = lookahead;
  }
  return best;
}

Cluster::Cluster(const emu::ProcessGroup& processes, emu::Transport* transport,
                 const Machine& machine, const std::string& where, const ClusterOptions& options)
    : processes_(processes),
      wiring_(options.wiring != nullptr ? options.wiring
                                        : std::make_shared<const fabric::Wiring>(
                                              machine.fabric(), where, options.what_if.links)),
      topology_(wiring_->topology),
      routing_(wiring_->routing),
      ports_(fabric::place(topology_, options.ranks, options.placement)),
      costs_(machine.device(), options.what_if.free_compute),
      limit_(options.limit),
      shards_(options.shards > 0
                  ? options.shards
                  : pick_shards(topology_, ports_, processes.size(), options.threads)),
      engine_(processes, transport, topology_.nodes(), {shards_, options.threads}),
      network_(engine_, topology_, routing_, machine.fabric()),
      rank_of_node_(topology_.nodes(), 0),
      switches_(topology_.nodes()),
      devices_(ports_.size()) {
  fabric::check_reachable(topology_, routing_, ports_, machine.fabric(), where);
  if (costs_.hub && topology_.link_classes.size() > fabric::Journey::kHub) {
    throw emu::ConfigError(where, "device.hub",
                           fmt::format("{} classes of links", topology_.link_classes.size()),
                           fmt::format("at most {}", fabric::Journey::kHub));
  }
  if (options.causal_entries > 0) {
    causal_log_ = std::make_unique<fabric::CausalLog>(topology_.nodes(), options.causal_entries);
    network_.set_causal_log(causal_log_.get());
  }
  const std::vector<int> assigned = assign_processes(topology_, ports_, processes.size() * shards_);
  std::vector<bool> has_rank(topology_.nodes(), false);
  for (const fabric::NodeId port : ports_) has_rank[port] = true;
  for (fabric::NodeId node = 0; node < topology_.nodes(); ++node) {
    engine_.place(node, assigned[node] / shards_, assigned[node] % shards_);
    // A device that takes no part still hands packets on, as those of a mesh do.
    if (has_rank[node] || !engine_.is_local(node)) continue;
    switches_[node] = std::make_unique<fabric::Switch>(network_, node);
    engine_.attach(node, switches_[node].get());
  }
  const std::vector<fabric::Region> regions =
      options.regions.empty() ? std::vector{fabric::Region{options.memory_bytes, 0, false}}
                              : options.regions;
  engine_.set_lookahead(lookahead_of(topology_, assigned));
  engine_.set_limit(options.limit);
  for (std::uint32_t rank = 0; rank < ports_.size(); ++rank) {
    rank_of_node_[ports_[rank]] = rank;
    if (!engine_.is_local(ports_[rank])) continue;
    devices_[rank] = std::make_unique<DeviceProcess>(engine_, network_, costs_, ports_, rank,
                                                     regions, options.adversary);
    if (options.check_records > 0) devices_[rank]->keep_accesses(options.check_records);
    engine_.attach(ports_[rank], devices_[rank].get());
    if (options.lost_put.rank == rank) devices_[rank]->lose_put(options.lost_put.number);
  }
}

Cluster::~Cluster() = default;

std::string Cluster::run() {
  const emu::Engine::Outcome outcome = engine_.run();
  std::string mine;
  for (const auto& device : devices_) {
    if (!device) continue;
    for (const std::string& line : device->waiting()) mine += line + "\n";
  }
  const bool hang =
      processes_.max(mine.empty() && outcome == emu::Engine::Outcome::kQuiescent ? 0 : 1) != 0;
  if (!hang) return {};
  const emu::Time end =
      outcome == emu::Engine::Outcome::kLimit ? limit_ : processes_.max(engine_.now());
  for (const auto& device : devices_) {
    if (device) device->trace_unfinished(end);
  }
  std::string report =
      outcome == emu::Engine::Outcome::kLimit
          ? fmt::format("hang: virtual time passed {:.3f} us\n", emu::to_us(limit_))
          : fmt::format("hang: no event is left after {:.3f} us and these cores still wait\n",
                        emu::to_us(end));
  for (const auto& part : processes_.all_gather(std::as_bytes(std::span<const char>(mine)))) {
    report.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return report;
}

std::uint64_t Cluster::digest() const {
  std::vector<std::uint64_t> mine(topology_.nodes(), 0);
  for (emu::LpId lp = 0; lp < topology_.nodes(); ++lp) {
    if (engine_.is_local(lp)) mine[lp] = engine_.digest_of(lp);
  }
  std::vector<std::uint64_t> all(mine.size(), 0);
  for (const auto& part :
       processes_.all_gather(std::as_bytes(std::span<const std::uint64_t>(mine)))) {
    for (std::size_t lp = 0; lp < all.size(); ++lp) {
      std::uint64_t word;
      std::memcpy(&word, part.data() + lp * sizeof(word), sizeof(word));
      all[lp] |= word;  // one process alone has it
    }
  }
  emu::RunningDigest digest;
  for (std::size_t lp = 0; lp < all.size(); ++lp) {
    if (all[lp] == 0) continue;
    digest.add(lp);
    digest.add(all[lp]);
  }
  return digest.value();
}

std::uint64_t Cluster::executed_events() const {
  return static_cast<std::uint64_t>(processes_.sum(static_cast<std::int64_t>(engine_.executed())));
}

}  // namespace orrery::devices
