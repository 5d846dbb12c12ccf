#include "moe/algorithms/deepep_normal.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/errors.h"
#include "moe/share.h"

namespace orrery::moe::deepep {

using devices::Core;

namespace {

// Vector passes to count the rows for a device: compare, min with 1, sum.
constexpr int kCountPasses = 3;

NodeGroups groups_of(const Problem& problem, std::uint64_t size) {
  return size == 0 ? NodeGroups(problem.nodes) : NodeGroups::consecutive(problem.devices, size);
}

RingSize ring_size(const Options& options, const std::string& prefix) {
  constexpr std::uint64_t kMost = 1 << 20;
  const auto chunk = static_cast<std::uint32_t>(options.number(prefix + "chunk", 1, kMost));
  const auto tokens = static_cast<std::uint32_t>(options.number(prefix + "queue_tokens", 1, kMost));
  if (tokens < chunk) {
    throw emu::ConfigError(
        "--set", "algorithm." + prefix + "queue_tokens", std::to_string(tokens),
        fmt::format("at least {}chunk, {}: a sender waits for room for a chunk", prefix, chunk));
  }
  return {tokens, chunk};
}

// A core waits for at most so many words at once.
constexpr std::uint32_t kMostWatches = 64;

}  // namespace

DeepEpNormal::DeepEpNormal(const Problem& problem, const Options& options)
    : DedupLayer(problem, precision_named(options.text("quantise"))),
      groups_(groups_of(problem, options.number("group", 0, 1 << 20))),
      channels_(std::min(static_cast<std::uint32_t>(options.number("channels", 1, 1024)),
                         std::max(problem.costs.cores / 2, 1u))),
      by_queue_pair_(options.text("release") == "queue-pair"),
      sabotage_(options.text("sabotage")),
      at_(layout_, problem, groups_,
          {channels_, ring_size(options, ""), ring_size(options, "far_")}, message_stride(),
          message_rows(problem.token_bound), taken_bytes()) {
  const std::uint32_t watches = most_watches();
  if (watches > kMostWatches) {
    throw emu::ConfigError(
        "--devices", "", std::to_string(problem.devices),
        fmt::format("fewer: a core of deepep-normal would wait for {} rings at once, "
                    "and can for {}",
                    watches, kMostWatches));
  }
  std::vector<std::uint32_t> nodes(problem.devices);
  for (std::uint32_t device = 0; device < problem.devices; ++device)
    nodes[device] = node_of(device);
  reduce_in(has_two_levels() ? ReductionOrder::by_device(problem.placement, nodes)
                             : ReductionOrder::by_device(problem.placement));
}

// Rings that the roles of a core wait for at once.
std::uint32_t DeepEpNormal::most_watches() const {
  const std::uint32_t devices = problem_.devices;
  const std::uint32_t nodes = groups_.groups();
  const bool one_core = problem_.costs.cores == 1;
  if (!has_two_levels()) return one_core ? 2 * devices : devices;
  const std::uint32_t forwarder = nodes + groups_.members();
  return one_core ? std::max(2 * forwarder, devices + nodes + 1) : std::max(forwarder, devices);
}

// Fences of the core that puts do it all; or its queue pair between NICs. Words are of 4 bytes.
Contract DeepEpNormal::contract() const {
  Contract contract{Contract::Order::kNone, 4};
  if (by_queue_pair_) contract.scale_out_order = Contract::Order::kCorePair;
  return contract;
}

std::vector<std::string> DeepEpNormal::notes() const {
  if (!has_two_levels()) return {};
  return {fmt::format("rows travel once per node: {} nodes of {} devices", groups_.groups(),
                      groups_.members())};
}

// DedupLayer's, and what is on its way through a forwarder: a token once per node.
std::uint64_t DeepEpNormal::touched_bytes(std::uint32_t device) const {
  return DedupLayer::touched_bytes(device) + passing_bytes(device, groups_.groups());
}

std::uint32_t DeepEpNormal::cores(std::uint32_t operation, std::uint32_t iteration) const {
  if (operation == kExperts) return MoeLayer::cores(operation, iteration);
  return std::min(2 * channels_, problem_.costs.cores);
}

void DeepEpNormal::set_up(devices::DeviceProcess& device) {
  fabric::Memory& memory = device.memory();
  memory.store(at_.barrier_number(), std::uint32_t{0});
  for (const RingFamily* family : {&at_.near, &at_.far, &at_.near_back, &at_.far_back}) {
    for (std::uint32_t channel = 0; channel < channels_; ++channel) {
      for (std::uint32_t ring = 0; ring < family->rings(); ++ring) {
        memory.store(family->taken(channel, ring), std::uint64_t{0});
        memory.store(family->sent(channel, ring), std::uint64_t{0});
      }
    }
  }
}

std::vector<std::uint32_t> DeepEpNormal::nodes_of(std::vector<std::uint32_t> devices) const {
  for (std::uint32_t& each : devices) each = node_of(each);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

emu::Task DeepEpNormal::order_near(Core& core) const {
  if (sabotage_ == "skip-fence") co_return;
  if (has_two_levels() && core.device().has_nic()) {
    co_await core.release_stores();
  } else {
    co_await core.fence();
  }
}

emu::Task DeepEpNormal::order_far(Core& core) const {
  if (sabotage_ == "skip-fence") co_return;
  if (by_queue_pair_) {
    co_await core.release_stores();
  } else {
    co_await core.fence();
  }
}

RingSender::Order DeepEpNormal::near_order() {
  return [this](Core& core) { return order_near(core); };
}

RingSender::Order DeepEpNormal::far_order() {
  return [this](Core& core) { return order_far(core); };
}

emu::Task DeepEpNormal::rank_barrier(Core& core) {
  core.phase("barrier of all devices");
  const auto number = core.load<std::uint32_t>(at_.barrier_number()) + 1;
  core.write(at_.barrier_number(), number);
  co_await core.fence();
  for (std::uint32_t shift = 0; shift < core.ranks(); ++shift) {
    const std::uint32_t peer = (core.rank() + shift) % core.ranks();
    co_await core.store(peer, at_.barrier(core.rank()), number);
  }
  const auto writer = [](std::uint32_t peer) {
    return fmt::format("device {} core 0 (barrier of all devices)", peer);
  };
  const devices::Slots all{at_.barrier(0), 4, 4, core.ranks()};
  const devices::Predicate there = devices::word_at_least(number);
  co_await core.wait_until(all, there, writer);
}

// Everybody tells everybody how many rows come; the host reads the sum to size the output.
emu::Task DeepEpNormal::notify(Core& core, std::uint32_t iteration) {
  if (core.index() == 0) {
    core.phase("notify");
    co_await rank_barrier(core);
    if (sabotage_ == "in-flight-head") clear_queues(core);
    const std::uint32_t count = tokens(core.rank(), iteration);
    std::vector<std::uint32_t> rows(core.ranks(), 0);
    for (std::uint32_t token = 0; token < count; ++token) {
      for (const std::uint32_t device : owners(ids_of(core, token))) ++rows[device];
    }
    const std::uint64_t entries = std::uint64_t{count} * problem_.top_k();
    co_await core.stream(entries * sizeof(std::int32_t));
    co_await core.compute(core.ranks() * kCountPasses * core.costs().vector(entries));
    for (std::uint32_t shift = 0; shift < core.ranks(); ++shift) {
      const std::uint32_t peer = (core.rank() + shift) % core.ranks();
      co_await core.store(peer, at_.count(core.rank()), rows[peer]);
    }
    co_await rank_barrier(core);
    std::uint32_t begin = 0;
    for (std::uint32_t source = 0; source < core.ranks(); ++source) {
      core.write(at_.rank_begin(source), begin);
      begin += core.load<std::uint32_t>(at_.count(source));
    }
    core.write(at_.rank_begin(core.ranks()), begin);
    co_await core.stream(2ull * core.ranks() * 4);
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      core.write(expert_rows(local), std::uint32_t{0});
    }
    co_await rank_barrier(core);
  }
  co_await core.host_sync();
}

// What the source does, without the quiet that lets heads arrive which are still under way.
void DeepEpNormal::clear_queues(Core& core) {
  for (const RingFamily* family : {&at_.near, &at_.far, &at_.near_back, &at_.far_back}) {
    for (std::uint32_t channel = 0; channel < channels_; ++channel) {
      for (std::uint32_t ring = 0; ring < family->rings(); ++ring) {
        core.write(family->tail(channel, ring), std::uint64_t{0});
        core.write(family->head(channel, ring), std::uint64_t{0});
        core.write(family->taken(channel, ring), std::uint64_t{0});
        core.write(family->sent(channel, ring), std::uint64_t{0});
      }
    }
  }
}

namespace {
std::vector<OptionSpec> normal_options() {
  return {
      {"quantise",
       "bf16",
       "dispatch payload: bf16, or int8 with one scale per row",
       {"bf16", "int8"}},
      {"group",
       "0",
       "devices of a node, which get a row once and share it; 0: the topology's nodes; 1, or nodes "
       "of different sizes: one level",
       {}},
      {"channels", "10", "pairs of cores that share the tokens; fewer where cores are fewer", {}},
      {"chunk", "6", "rows that a sender puts at once, inside a node (assumed)", {}},
      {"queue_tokens", "256", "rows of a ring inside a node, at least a chunk (assumed)", {}},
      {"far_chunk", "20", "rows that a sender puts at once, between nodes (assumed)", {}},
      {"far_queue_tokens", "128", "rows of a ring between nodes, at least a chunk (assumed)", {}},
      {"release",
       "fence",
       "a ring's tail follows its rows between nodes by a fence, or by the order of a queue pair",
       {"fence", "queue-pair"}},
      {"sabotage",
       "none",
       "break it on purpose, to see how that looks: rings in turn, a sender that spins for room, a "
       "forwarder that keeps heads back, queues cleared under way, no fences, a record that is not "
       "sent",
       {"none", "in-order", "spin-sender", "late-head", "in-flight-head", "skip-fence",
        "drop-record"}}};
}
}  // namespace

ORRERY_ALGORITHM(
    deepep_normal, "deepep-normal",
    "DeepEP normal dispatch and combine: ring queues with credits, rows once per device "
    "and node",
    DeepEpNormal, normal_options())

}  // namespace orrery::moe::deepep
