#include "moe/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "devices/cluster.h"
#include "devices/order_check.h"
#include "devices/order_checker.h"
#include "emu/errors.h"
#include "emu/near_match.h"
#include "emu/recorder.h"
#include "emu/transport.h"
#include "fabric/placement.h"
#include "fabric/routing.h"
#include "fabric/summary.h"
#include "fabric/topology.h"
#include "moe/algorithm.h"
#include "moe/check.h"
#include "moe/contract_notes.h"
#include "moe/gate.h"
#include "moe/measurement.h"
#include "moe/memory_check.h"
#include "moe/stages.h"
#include "moe/trace.h"
#include "moe/workload.h"

namespace orrery::moe {

namespace {

using devices::Cluster;
using devices::DeviceProcess;

constexpr std::size_t kFailuresListed = 8;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Problem make_problem(const RunConfig& config, const devices::Costs& costs) {
  const std::uint32_t devices = config.devices;
  std::vector<RoutingTable> tables;
  std::vector<Arrivals> arrivals;
  std::unique_ptr<Trace> trace;
  if (config.workload.gate().kind() == Gate::TRACE) {
    trace = std::make_unique<Trace>(Trace::load(config.workload));
  }
  for (std::uint32_t iteration = 0; iteration < config.iterations; ++iteration) {
    tables.push_back(route(config.workload, devices, config.seed, iteration, trace.get()));
    arrivals.emplace_back(tables.back());
  }
  const ExpertPlacement placement(config.workload.experts(), devices);
  const fabric::Topology topology =
      fabric::build_topology(config.machine.fabric(), config.machine_file);
  const std::vector<fabric::NodeId> ports = fabric::place(topology, devices, config.placement);
  std::vector<std::uint32_t> nodes;
  for (const fabric::NodeId port : ports) nodes.push_back(port / topology.devices_per_node);
  const bool real = uses_real_ffn(config.workload, tables.front(), placement);
  return {config.workload,
          costs,
          devices,
          token_bound(config.workload, devices, config.workload_file),
          config.iterations,
          config.seed,
          config.control,
          config.threads,
          std::min(fabric::path_rules(config.machine.fabric(), false).block_bytes,
                   fabric::path_rules(config.machine.fabric(), true).block_bytes),
          fabric::mean_latency(fabric::Routing(topology), ports),
          std::move(nodes),
          placement,
          std::move(tables),
          std::move(arrivals),
          Experts(config.workload, config.seed,
                  real ? ExpertKind::kSwiGlu : ExpertKind::kCheapTransform)};
}

// What one process collects while devices run.
struct Collected {
  std::vector<std::string> failures;
  std::uint64_t failure_count = 0;
  std::vector<std::uint64_t> digests;  // by (device, iteration, operation)
};

class Driver {
 public:
  Driver(const RunConfig& config, Cluster& cluster, const Problem& problem, Algorithm& algorithm)
      : config_(config),
        cluster_(cluster),
        algorithm_(algorithm),
        stages_(problem, algorithm, config.operation),
        measurement_(cluster, stages_, problem) {
    collected_.digests.assign(std::size_t{cluster.ranks()} * config.iterations * stages_.size(), 0);
    for_each_local([this](DeviceProcess& device) {
      device.as_host([&] { algorithm_.set_up(device); });
      ++local_;
    });
    devices_left_.assign(config.iterations, static_cast<std::uint32_t>(local_));
    cluster_.engine().set_milestones([this](std::int64_t ended) {
      while (folded_ < ended) measurement_.fold(static_cast<std::uint32_t>(folded_++));
    });
    announce_ended();
  }

  // All iterations; the hang report if there was one.
  std::string run() {
    if (config_.alignment == devices::Alignment::kNone) {
      for_each_local([this](DeviceProcess& device) {
        device.start_stream(stream(device, 0, config_.iterations, 0, stages_.size()), 0);
      });
      return cluster_.run();
    }
    // Aligned: these operations begin everywhere at once, when all before have ended everywhere.
    const bool each =
        config_.alignment == devices::Alignment::kOperations && !stages_.whole_layer();
    const std::uint32_t together = each ? 1 : stages_.size();
    emu::Time start = 0;
    for (std::uint32_t iteration = 0; iteration < config_.iterations; ++iteration) {
      for (std::uint32_t first = 0; first < stages_.size(); first += together) {
        for_each_local([&](DeviceProcess& device) {
          device.start_stream(stream(device, iteration, iteration + 1, first, first + together),
                              start);
        });
        std::string hang = cluster_.run();
        if (!hang.empty()) return hang;
        start = cluster_.processes().max(cluster_.engine().now());
      }
    }
    return {};
  }

  const Collected& collected() const { return collected_; }
  Measurement& measurement() { return measurement_; }
  const Stages& stages() const { return stages_; }
  /// The iteration that the devices of this process are in, on average.
  std::uint64_t iteration() const {
    return local_ == 0 ? 0
                       : std::min<std::uint64_t>(kernels_ended_ / (local_ * stages_.size()),
                                                 config_.iterations - 1);
  }

 private:
  template <typename Visit>
  void for_each_local(Visit&& visit) {
    for (std::uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
      if (cluster_.is_local(rank)) visit(cluster_.device(rank));
    }
  }

  // A device's kernels one after the other: no barrier between devices.
  emu::Task stream(DeviceProcess& device, std::uint32_t first_iteration,
                   std::uint32_t last_iteration, std::uint32_t first_operation,
                   std::uint32_t last_operation) {
    emu::RandomStream late(config_.seed, device.rank(), "late start");
    const auto jitter = static_cast<std::uint64_t>(emu::from_ns(config_.workload.jitter_ns()));
    for (std::uint32_t iteration = first_iteration; iteration < last_iteration; ++iteration) {
      if (first_operation == 0) device.as_host([&] { algorithm_.prepare(device, iteration); });
      for (std::uint32_t operation = first_operation; operation < last_operation; ++operation) {
        if (!stages_.in_iteration(devices::KernelRange::only(operation), iteration)) continue;
        const std::uint64_t draw = late.at(std::uint64_t{iteration} * stages_.size() + operation);
        auto pause = device.sleep(static_cast<emu::Time>(draw % (jitter + 1)));
        co_await pause;
        auto kernel = device.kernel(
            operation, iteration, stages_.cores(operation, iteration),
            [this, operation, iteration](devices::Core& core) {
              return stages_.program(core, operation, iteration);
            },
            stages_.stages()[operation].name);
        co_await kernel;
        verify(device, operation, iteration);
      }
      if (last_operation == stages_.size()) {
        const std::lock_guard lock(mutex_);
        --devices_left_[iteration];
        announce_ended();
      }
    }
  }

  // Iterations that all devices of this process have ended; all of them if it has no device.
  void announce_ended() {
    while (ended_ < config_.iterations && devices_left_[ended_] == 0) ++ended_;
    cluster_.engine().announce(ended_);
  }

  void verify(DeviceProcess& device, std::uint32_t operation, std::uint32_t iteration) {
    const Verdict verdict = stages_.verify(device, operation, iteration);
    collected_
        .digests[(std::size_t{device.rank()} * config_.iterations + iteration) * stages_.size() +
                 operation] = verdict.digest;
    const std::lock_guard lock(mutex_);
    ++kernels_ended_;
    if (verdict.ok) return;
    ++collected_.failure_count;
    // So many of each device, whichever process it is on.
    if (failures_of_device_[device.rank()]++ < kFailuresListed) {
      collected_.failures.push_back(fmt::format("device {} {} iteration {}: {}", device.rank(),
                                                stages_.stages()[operation].name, iteration,
                                                verdict.what));
    }
  }

  const RunConfig& config_;
  Cluster& cluster_;
  Algorithm& algorithm_;
  std::mutex mutex_;  // of what devices on several threads report
  const Stages stages_;
  std::uint64_t local_ = 0;  // devices of this process
  std::uint64_t kernels_ended_ = 0;
  Collected collected_;
  Measurement measurement_;
  std::map<std::uint32_t, std::size_t> failures_of_device_;
  std::vector<std::uint32_t> devices_left_;  // by iteration
  std::int64_t ended_ = 0;
  std::int64_t folded_ = 0;
};

constexpr const char* kTornRead = "torn read on ";

std::string describe(const fabric::TornRead& torn, std::uint32_t reader, std::uint32_t writer) {
  return fmt::format(
      "{}device {}: core {} took {} bytes at {:#x} as complete at {:.3f} us, but those at {:#x}, "
      "put "
      "by device {} core {} at {:.3f} us, were visible only at {:.3f} us",
      kTornRead, reader, torn.reader_core, torn.bytes, torn.address, emu::to_us(torn.read),
      torn.missing, writer, torn.writer_core, emu::to_us(torn.issued), emu::to_us(torn.visible));
}

// Failures of all processes in rank order, which is device order; and the digest of all outputs.
void collect(Cluster& cluster, const Collected& collected, Result& result) {
  const emu::ProcessGroup& processes = cluster.processes();
  std::string lines;
  std::uint64_t failures = collected.failure_count;
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.is_local(rank)) continue;
    failures += cluster.device(rank).torn_read_count();
    for (const fabric::TornRead& torn : cluster.device(rank).torn_reads()) {
      lines += describe(torn, rank, cluster.rank_at(torn.writer)) + "\n";
    }
  }
  for (const std::string& failure : collected.failures) lines += failure + "\n";
  std::vector<std::string> all;
  for (const auto& part : processes.all_gather(std::as_bytes(std::span<const char>(lines)))) {
    std::string text(reinterpret_cast<const char*>(part.data()), part.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  // By text, so that the listing does not depend on how devices are spread over processes; torn
  // reads first, since they are why rows are wrong.
  std::sort(all.begin(), all.end());
  std::stable_partition(all.begin(), all.end(),
                        [](const std::string& line) { return line.starts_with(kTornRead); });
  const auto total = static_cast<std::uint64_t>(processes.sum(static_cast<std::int64_t>(failures)));
  result.set_verified(total == 0);
  for (std::size_t i = 0; i < all.size() && i < kFailuresListed; ++i) result.add_failures(all[i]);
  if (total > static_cast<std::uint64_t>(result.failures_size())) {
    result.add_failures(
        fmt::format("{} more", total - static_cast<std::uint64_t>(result.failures_size())));
  }

  std::vector<std::uint64_t> digests(collected.digests.size(), 0);
  for (const auto& part :
       processes.all_gather(std::as_bytes(std::span<const std::uint64_t>(collected.digests)))) {
    for (std::size_t i = 0; i < digests.size(); ++i) {
      std::uint64_t word;
      std::memcpy(&word, part.data() + i * sizeof(word), sizeof(word));
      digests[i] |= word;  // one process alone has it
    }
  }
  emu::RunningDigest digest;
  for (const std::uint64_t each : digests) digest.add(each);
  result.set_output_digest(emu::to_hex(digest.value()));
}

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

RunOutcome run(const emu::ProcessGroup& processes, const RunConfig& config) {
  const auto begin = std::chrono::steady_clock::now();
  RunOutcome outcome;
  Result& result = outcome.result;
  const devices::Costs costs(config.machine.device());
  const AlgorithmEntry& entry = find_algorithm(config.algorithm);
  Options options(entry.options);
  for (const auto& [field, value] : config.settings) {
    if (field.rfind("algorithm.", 0) == 0) options.set(field.substr(10), value);
    (*result.mutable_settings())[field] = value;
  }
  if (config.check && config.devices > devices::OrderChecker::kMostDevices) {
    throw emu::ConfigError("--check", "", fmt::format("{} devices", config.devices),
                           fmt::format("at most {}: what each core knows of all others grows with "
                                       "the square",
                                       devices::OrderChecker::kMostDevices));
  }
  if (config.explain && config.machine.device().has_nic()) {
    throw emu::ConfigError("--explain", "", config.machine.name(),
                           "a machine without NICs: what-if runs do not follow their queues and "
                           "proxies yet (the breakdown and --timeline do)");
  }
  check_tables_fit(processes, config, entry);
  Problem problem = make_problem(config, costs);
  const std::unique_ptr<Algorithm> algorithm = entry.make(problem, options);
  if (config.explain && algorithm->uses_hub()) {
    throw emu::ConfigError("--explain", "", config.algorithm,
                           "an algorithm without hubs: what-if runs do not follow their queues yet "
                           "(the breakdown and --timeline do)");
  }
  Stages(problem, *algorithm, config.operation);  // refused before any work
  check_devices_fit(processes, config, *algorithm);

  devices::ClusterOptions cluster_options;
  cluster_options.ranks = config.devices;
  cluster_options.placement = config.placement;
  cluster_options.threads = config.threads;
  cluster_options.regions = algorithm->layout().regions();
  cluster_options.adversary = {config.adversary, config.seed,
                               emu::from_ns(config.machine.fabric().adversary_delay_ns())};
  if (config.max_virtual_ms > 0) cluster_options.limit = emu::from_ns(config.max_virtual_ms * 1e6);
  cluster_options.what_if = config.what_if;
  cluster_options.lost_put = config.lost_put;
  if (config.explain) cluster_options.causal_entries = config.most_causes;
  if (config.check) cluster_options.check_records = config.most_accesses / config.devices;
  const auto transport = emu::make_transport(config.transport, processes);
  Cluster cluster(processes, transport.get(), config.machine, config.machine_file, cluster_options);
  // Devices on threads of their own need no others for their arithmetic.
  if (cluster.engine().shards() > 1) problem.threads = 1;
  // What all devices of this process touch, less what they seldom hold at once.
  double touched = 0;
  for (std::uint32_t device = 0; device < config.devices; ++device) {
    if (cluster.is_local(device)) touched += static_cast<double>(algorithm->touched_bytes(device));
  }
  if (!config.control) cluster.engine().blocks().expect(static_cast<std::uint64_t>(touched / 2));
  std::optional<emu::Recorder> recorder;
  if (config.trace) {
    recorder.emplace(record_limits(*config.trace, cluster), cluster.topology().nodes(),
                     static_cast<std::uint32_t>(cluster.topology().link_classes.size()));
    cluster.engine().set_trace(&*recorder);
  }
  Driver driver(config, cluster, problem, *algorithm);
  if (config.progress) {
    cluster.engine().set_progress([&config, &driver](emu::Time now) {
      config.progress(fmt::format("iteration {} of {}, virtual time {:.1f} us",
                                  driver.iteration() + 1, config.iterations, emu::to_us(now)));
    });
  }
  outcome.hang = driver.run();
  if (cluster.is_local(config.lost_put.rank)) {
    outcome.put_lost = cluster.device(config.lost_put.rank).has_lost_put();
  }

  result.set_topology(config.machine.name());
  result.set_workload(config.workload.name());
  result.set_algorithm(config.algorithm);
  result.set_devices(config.devices);
  result.set_tokens(problem.tables.front().max_tokens());
  result.set_seed(config.seed);
  result.set_iterations(config.iterations);
  result.set_placement(config.placement);
  result.set_operation(config.operation);
  result.set_align(config.alignment == devices::Alignment::kOperations);
  result.set_align_iterations(config.alignment == devices::Alignment::kIterations);
  result.set_payload(config.control ? "control" : "full");
  result.set_adversary(config.adversary);
  for (const std::string& note :
       contract_notes(config.algorithm, algorithm->contract(), config.machine.fabric())) {
    result.add_notes(note);
  }
  for (const std::string& note : algorithm->notes()) result.add_notes(note);
  collect(cluster, driver.collected(), result);
  if (recorder) outcome.trace = collect_trace(*recorder, cluster);
  if (config.check) *result.mutable_check() = run_check(cluster, config.most_accesses);
  if (!outcome.hang.empty()) {
    for (const OrderFinding& finding : result.check().findings())
      outcome.hang += "check: " + finding.text() + "\n";
    // What went wrong before may well be why.
    for (const std::string& failure : result.failures())
      outcome.hang += "before that: " + failure + "\n";
    result.set_verified(false);
  } else {
    driver.measurement().finish(config.iterations, result);
    outcome.spans = driver.stages().spans();
    outcome.paths = driver.measurement().paths();
    outcome.slowest = driver.measurement().slowest();
    if (config.explain) outcome.history = devices::causal_history(cluster, config.alignment);
    double buffers = 0;
    for (std::uint32_t device = 0; device < config.devices; ++device) {
      buffers = std::max(buffers, static_cast<double>(algorithm->touched_bytes(device)));
    }
    (*result.mutable_counters())["buffer_bytes_of_largest_device"] = buffers;
  }
  Host& host = *result.mutable_host();
  host.set_processes(static_cast<std::uint32_t>(processes.size()));
  host.set_threads(static_cast<std::uint32_t>(config.threads));
  host.set_transport(transport->name());
  host.set_events(static_cast<double>(cluster.executed_events()));
  host.set_wall_seconds(seconds_since(begin));
  host.set_events_per_second(host.events() / host.wall_seconds());
  host.set_peak_rss_mib(
      static_cast<double>(processes.max(static_cast<std::int64_t>(peak_rss_mib()))));
  return outcome;
}

}  // namespace orrery::moe
