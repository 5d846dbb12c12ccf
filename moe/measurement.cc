#include "moe/measurement.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "devices/critical_path.h"

namespace orrery::moe {

namespace {

using devices::Cluster;
using devices::KernelRecord;

// Values of every process's T's, concatenated in rank order.
template <typename T>
std::vector<T> gather_all(const emu::ProcessGroup& processes, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const auto& part : processes.all_gather(std::as_bytes(std::span<const T>(mine)))) {
    const std::size_t count = part.size() / sizeof(T);
    all.resize(all.size() + count);
    if (count > 0) std::memcpy(&all[all.size() - count], part.data(), part.size());
  }
  return all;
}

struct KernelSummary {
  std::uint32_t rank;
  std::uint32_t operation;
  std::uint32_t iteration;
  std::uint32_t cores;
  emu::Time start;
  emu::Time end;
  std::array<emu::Time, devices::kCategories> core_time;  // sums over cores
};

std::vector<KernelSummary> summarise(Cluster& cluster) {
  std::vector<KernelSummary> mine;
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.is_local(rank)) continue;
    for (const KernelRecord& record : cluster.device(rank).records()) {
      KernelSummary summary{rank,         record.operation, record.iteration,
                            static_cast<std::uint32_t>(record.timelines.size()), record.start,
                            record.end,   {}};
      for (const devices::Timeline& timeline : record.timelines) {
        const auto sums = devices::sum_by_category(timeline);
        for (std::size_t i = 0; i < sums.size(); ++i) summary.core_time[i] += sums[i];
      }
      mine.push_back(summary);
    }
  }
  std::vector<KernelSummary> all = gather_all(cluster.processes(), mine);
  std::sort(all.begin(), all.end(), [](const KernelSummary& a, const KernelSummary& b) {
    return std::tie(a.operation, a.iteration, a.rank) < std::tie(b.operation, b.iteration, b.rank);
  });
  return all;
}

// Nearest-rank percentile of sorted values.
emu::Time percentile(const std::vector<emu::Time>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void fill_latency(const std::vector<KernelSummary>& kernels, std::uint32_t operation, Operation& out) {
  std::vector<emu::Time> latencies;
  const KernelSummary* slowest = nullptr;
  for (const KernelSummary& kernel : kernels) {
    if (kernel.operation != operation) continue;
    latencies.push_back(kernel.end - kernel.start);
    if (slowest == nullptr || kernel.end - kernel.start > slowest->end - slowest->start) {
      slowest = &kernel;
    }
  }
  if (latencies.empty()) return;
  out.set_slowest_device(slowest->rank);
  out.set_slowest_iteration(slowest->iteration);
  std::sort(latencies.begin(), latencies.end());
  emu::Time sum = 0;
  for (const emu::Time each : latencies) sum += each;
  Latency& latency = *out.mutable_latency_us();
  latency.set_min(emu::to_us(latencies.front()));
  latency.set_mean(emu::to_us(sum) / static_cast<double>(latencies.size()));
  latency.set_p50(emu::to_us(percentile(latencies, 0.50)));
  latency.set_p99(emu::to_us(percentile(latencies, 0.99)));
  latency.set_max(emu::to_us(latencies.back()));
}

void fill_core_time(const std::vector<KernelSummary>& kernels, std::uint32_t operation, Operation& out) {
  std::array<emu::Time, devices::kCategories> sums{};
  std::uint64_t cores = 0;
  for (const KernelSummary& kernel : kernels) {
    if (kernel.operation != operation) continue;
    cores += kernel.cores;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += kernel.core_time[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    const auto name = std::string(devices::name_of(static_cast<devices::Category>(i)));
    (*out.mutable_core_time_us())[name] = emu::to_us(sums[i]) / static_cast<double>(cores);
  }
}

void fill_breakdown(Cluster& cluster, std::uint32_t operation, Operation& out) {
  const devices::CriticalPath path =
      devices::critical_path(cluster, operation, out.slowest_iteration());
  const std::vector<std::string> names = devices::part_names(cluster.topology());
  for (std::size_t part = 0; part < path.parts.size(); ++part) {
    if (path.parts[part] != 0) (*out.mutable_breakdown_us())[names[part]] = emu::to_us(path.parts[part]);
  }
}

void fill_counters(Cluster& cluster, Result& result) {
  devices::Counters mine;
  std::vector<devices::Counters> local(1);
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (cluster.is_local(rank)) local[0].add(cluster.device(rank).counters());
  }
  for (const devices::Counters& each : gather_all(cluster.processes(), local)) mine.add(each);
  auto& counters = *result.mutable_counters();
  const auto set = [&counters](const std::string& name, std::uint64_t value) {
    counters[name] = static_cast<double>(value);
  };
  set("puts", mine.puts);
  set("signals", mine.signals);
  set("atomics", mine.atomics);
  set("gets", mine.gets);
  set("fences", mine.fences);
  set("drains", mine.drains);
  set("core_barriers", mine.barriers);
  set("polls", mine.polls);
  set("bytes_put", mine.bytes_put);
  for (std::size_t hops = 0; hops < devices::Counters::kHopClasses; ++hops) {
    if (mine.puts_by_hops[hops] > 0) {
      set("puts_over_" + std::to_string(hops) + "_switches", mine.puts_by_hops[hops]);
    }
  }
}

void fill_links(Cluster& cluster, Result& result) {
  struct Busy {
    fabric::LinkId link;
    fabric::LinkUse use;
  };
  constexpr std::size_t kListed = 10;
  std::vector<Busy> mine;
  const fabric::Topology& topology = cluster.topology();
  for (fabric::LinkId link = 0; link < topology.links.size(); ++link) {
    const fabric::LinkUse& use = cluster.network().use(link);
    if (use.packets > 0) mine.push_back({link, use});
  }
  const auto busier = [](const Busy& a, const Busy& b) {
    return a.use.busy != b.use.busy ? a.use.busy > b.use.busy : a.link < b.link;
  };
  std::sort(mine.begin(), mine.end(), busier);
  if (mine.size() > kListed) mine.resize(kListed);
  std::vector<Busy> all = gather_all(cluster.processes(), mine);
  std::sort(all.begin(), all.end(), busier);
  if (all.size() > kListed) all.resize(kListed);
  for (const Busy& busy : all) {
    const fabric::Link& link = topology.links[busy.link];
    BusyLink& out = *result.add_busiest_links();
    out.set_name(topology.names[link.from] + " -> " + topology.names[link.to]);
    if (result.virtual_time_us() > 0) {
      out.set_busy_share(emu::to_us(busy.use.busy) / result.virtual_time_us());
    }
    out.set_bytes(static_cast<double>(busy.use.bytes));
    out.set_queueing_us(emu::to_us(busy.use.waited));
  }
}

}  // namespace

void measure(Cluster& cluster, const Algorithm& algorithm, std::uint32_t iterations, Result& result) {
  const std::vector<KernelSummary> kernels = summarise(cluster);
  emu::Time first = emu::kNever;
  emu::Time last = 0;
  for (const KernelSummary& kernel : kernels) {
    first = std::min(first, kernel.start);
    last = std::max(last, kernel.end);
  }
  if (!kernels.empty()) result.set_virtual_time_us(emu::to_us(last - first));

  // Bytes that devices put during each operation's kernels.
  const std::vector<std::string> names = algorithm.operations();
  std::vector<std::uint64_t> wire(names.size(), 0);
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.is_local(rank)) continue;
    for (const KernelRecord& record : cluster.device(rank).records()) wire[record.operation] += record.wire_bytes;
  }
  for (std::uint32_t operation = 0; operation < names.size(); ++operation) {
    Operation& out = *result.add_operations();
    out.set_name(names[operation]);
    fill_latency(kernels, operation, out);
    fill_core_time(kernels, operation, out);
    fill_breakdown(cluster, operation, out);
    out.set_bytes_useful(static_cast<double>(algorithm.useful_bytes(operation, 0)));
    const auto total = static_cast<double>(
        cluster.processes().sum(static_cast<std::int64_t>(wire[operation])));
    out.set_bytes_on_wire(total / iterations);
  }
  fill_counters(cluster, result);
  fill_links(cluster, result);
  result.set_digest(emu::to_hex(cluster.digest()));
}

}  // namespace orrery::moe
