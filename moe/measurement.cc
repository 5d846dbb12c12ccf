#include "moe/measurement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

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

// Nearest-rank percentile of sorted values.
emu::Time percentile(const std::vector<emu::Time>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void fill_latency(std::vector<emu::Time> latencies, Operation& out) {
  if (latencies.empty()) return;
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
  if (mine.proxy_fences > 0) {
    set("proxy_fences", mine.proxy_fences);
    set("proxy_fence_waits", mine.proxy_fence_waits);
    counters["proxy_fence_wait_us"] = static_cast<double>(mine.proxy_fence_ps) / 1e6;
  }
  if (mine.hub_packets > 0) {
    set("hub_packets", mine.hub_packets);
    set("hub_refused", mine.hub_refused);
    set("hub_misses", mine.hub_misses);
  }
  set("polls", mine.polls);
  set("bytes_put", mine.bytes_put);
  set("bytes_got", mine.bytes_got);
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

Measurement::Measurement(Cluster& cluster, const Stages& stages, const Problem& problem)
    : cluster_(cluster), stages_(stages), spans_(stages.spans().size()) {
  if (stages.whole_model()) step_time_.emplace(stages, problem);
}

void Measurement::fold(std::uint32_t iteration) {
  const std::vector<Span>& spans = stages_.spans();
  std::vector<emu::Time> slowest(spans.size(), -1);
  for (std::uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
    if (!cluster_.is_local(rank)) continue;
    std::vector<const KernelRecord*> records(stages_.size(), nullptr);
    for (const KernelRecord& record : cluster_.device(rank).records()) {
      if (record.iteration == iteration) records[record.operation] = &record;
    }
    for (std::size_t index = 0; index < spans.size(); ++index) {
      if (!stages_.in_iteration(spans[index].stages, iteration)) continue;
      const emu::Time latency = add(spans[index], records, spans_[index]);
      slowest[index] = std::max(slowest[index], latency);
    }
    if (step_time_) step_time_->add(iteration, records);
    const KernelRecord* first = records[iteration == 0 ? 0 : stages_.first_of_layer()];
    first_start_ = std::min(first_start_, first->start);
    last_end_ = std::max(last_end_, records.back()->end);
  }
  for (std::size_t index = 0; index < spans.size(); ++index) {
    Summary& span = spans_[index];
    const emu::Time latency = cluster_.processes().max(slowest[index]);
    slowest[index] = latency;
    if (latency <= span.slowest) continue;
    span.slowest = latency;
    span.slowest_iteration = iteration;
    span.path = devices::critical_path(cluster_, spans[index].stages, iteration);
  }
  slowest_.push_back(std::move(slowest));
  for (std::uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
    if (cluster_.is_local(rank)) {
      std::erase_if(cluster_.device(rank).records(), [iteration](const KernelRecord& record) {
        return record.iteration == iteration;
      });
    }
  }
}

emu::Time Measurement::add(const Span& span, const std::vector<const KernelRecord*>& records,
                           Summary& summary) {
  const emu::Time latency = records[span.stages.last]->end - records[span.stages.first]->start;
  summary.latencies.push_back(latency);
  std::size_t cores = 0;
  for (std::uint32_t i = span.stages.first; i <= span.stages.last; ++i) {
    const KernelRecord& record = *records[i];
    cores = std::max(cores, record.timelines.size());
    summary.wire_bytes += record.wire_bytes;
    for (const devices::Timeline& timeline : record.timelines) {
      const auto sums = devices::sum_by_category(timeline);
      for (std::size_t j = 0; j < sums.size(); ++j) summary.core_time[j] += sums[j];
    }
  }
  summary.cores += cores;
  return latency;
}

std::vector<devices::CriticalPath> Measurement::paths() const {
  std::vector<devices::CriticalPath> paths;
  for (const Summary& span : spans_) paths.push_back(span.path);
  return paths;
}

void Measurement::finish(std::uint32_t iterations, Result& result) {
  const emu::ProcessGroup& processes = cluster_.processes();
  const emu::Time first = -processes.max(-first_start_);
  result.set_virtual_time_us(emu::to_us(processes.max(last_end_) - first));
  const std::vector<std::string> parts = devices::part_names(cluster_.topology());
  for (std::size_t index = 0; index < spans_.size(); ++index) {
    Summary& operation = spans_[index];
    const Span& span = stages_.spans()[index];
    Operation& out = *result.add_operations();
    out.set_name(span.name);
    fill_latency(gather_all(processes, operation.latencies), out);
    out.set_slowest_device(operation.path.rank);
    out.set_slowest_iteration(operation.slowest_iteration);
    for (std::size_t part = 0; part < operation.path.parts.size(); ++part) {
      const emu::Time time = operation.path.parts[part];
      if (time != 0) (*out.mutable_breakdown_us())[parts[part]] = emu::to_us(time);
    }
    const auto cores =
        static_cast<double>(processes.sum(static_cast<std::int64_t>(operation.cores)));
    for (std::size_t i = 0; i < operation.core_time.size(); ++i) {
      const emu::Time sum = processes.sum(operation.core_time[i]);
      if (sum == 0) continue;
      const auto category = std::string(devices::name_of(static_cast<devices::Category>(i)));
      (*out.mutable_core_time_us())[category] = emu::to_us(sum) / cores;
    }
    out.set_bytes_useful(static_cast<double>(stages_.useful_bytes(span, 0)));
    out.set_bytes_on_wire(
        static_cast<double>(processes.sum(static_cast<std::int64_t>(operation.wire_bytes))) /
        iterations);
  }
  if (step_time_) *result.mutable_model() = step_time_->finish(processes);
  fill_counters(cluster_, result);
  fill_links(cluster_, result);
  result.set_digest(emu::to_hex(cluster_.digest()));
}

}  // namespace orrery::moe
