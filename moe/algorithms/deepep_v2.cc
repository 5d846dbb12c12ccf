#include "moe/algorithms/deepep_v2.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices/fetch_add_each.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;

namespace {

// Cores that count, where there are as many.
constexpr std::uint32_t kCounters = 4;

NodeGroups groups_of(const Problem& problem, const Options& options) {
  const std::string& form = options.text("form");
  const auto size = static_cast<std::uint32_t>(options.number("group", 0, 1u << 20));
  if (form == "direct") return NodeGroups::consecutive(problem.devices, problem.devices);
  return size == 0 ? NodeGroups(problem.nodes) : NodeGroups::consecutive(problem.devices, size);
}

}  // namespace

DeepEpV2::Roles::Roles(const Problem& problem, const Options& options, const NodeGroups& groups) {
  const auto asked = static_cast<std::uint32_t>(options.number("sms", 0, 1024));
  // What its model of bandwidths comes to for 8 GPUs of 450 GB/s, and for nodes of them with 50
  // GB/s each, top 8 of 256 experts.
  const std::uint32_t wanted = asked > 0 ? asked : groups.groups() == 1 ? 14 : 12;
  const std::uint32_t cores = problem.costs.cores;
  sms = std::min(wanted, std::max(cores - 1, 1u));
  channels = groups.groups() == 1 ? sms : std::max(sms / 2, 1u);
  counters = cores > sms ? std::min(kCounters, cores - sms) : 1;
  first_counter = cores > sms ? sms : 0;
}

DeepEpV2::DeepEpV2(const Problem& problem, const Options& options)
    : DeepEpV2(problem, options, groups_of(problem, options),
               Roles(problem, options, groups_of(problem, options))) {}

DeepEpV2::DeepEpV2(const Problem& problem, const Options& options, const NodeGroups& groups,
                   const Roles& roles)
    : DedupLayer(problem, precision_named(options.text("quantise"))),
      DeepEpV2Buffers(problem, groups, roles.channels),
      groups_(groups),
      roles_(roles),
      fenced_(options.text("release") == "fence"),
      host_sync_(options.flag("host_sync")),
      deferred_(options.text("epilogue") == "deferred"),
      reduces_twice_(options.flag("allow_multiple_reduction")),
      sabotage_(options.text("sabotage")),
      barrier_(groups, problem.costs.cores, fenced_, layout_),
      counts_(groups, problem.placement, roles.counters, layout_) {
  lay_out(layout_, message_stride(), taken_bytes(), problem.costs.cores,
          [this](std::uint64_t count) { return message_rows(count); });
  if (!reduces_twice_) return;
  std::vector<std::uint32_t> node(problem.devices);
  for (std::uint32_t device = 0; device < problem.devices; ++device) {
    node[device] = groups_.group_of(device);
  }
  if (groups_.groups() == 1) node.clear();
  reduce_in(ReductionOrder::by_device(problem.placement, node));
}

std::vector<std::string> DeepEpV2::operations() const {
  if (deferred_) return {"dispatch", "copy", "experts", "combine", "reduce"};
  return DedupLayer::operations();
}

std::uint64_t DeepEpV2::useful_bytes(std::uint32_t operation, std::uint32_t iteration) const {
  return is_epilogue(operation) ? 0 : DedupLayer::useful_bytes(of_layer(operation), iteration);
}

emu::Task DeepEpV2::program(Core& core, std::uint32_t operation, std::uint32_t iteration) {
  if (!is_epilogue(operation)) return DedupLayer::program(core, of_layer(operation), iteration);
  return operation == kCopy ? expand_all(core) : reduce_all(core, iteration);
}

// Before its epilogue an operation has left nothing where a layer has it.
Verdict DeepEpV2::verify(devices::DeviceProcess& device, std::uint32_t operation,
                         std::uint32_t iteration) {
  if (lacks_epilogue(operation)) return {};
  return DedupLayer::verify(device, of_layer(operation), iteration);
}

// Words of progress are of 8 bytes. Without a fence they follow the rows of their own core and
// queue pair; what is put by stores is waited for.
// With one group nothing passes through a device.
std::uint64_t DeepEpV2::touched_bytes(std::uint32_t device) const {
  return DedupLayer::touched_bytes(device) +
         (groups_.groups() > 1 ? 2 * passing_bytes(device, groups_.groups()) : 0);
}

Contract DeepEpV2::contract() const {
  Contract contract{Contract::Order::kNone, 8};
  if (!fenced_) contract.scale_out_order = Contract::Order::kSignals;
  return contract;
}

std::vector<std::string> DeepEpV2::notes() const {
  if (groups_.groups() == 1) {
    return {fmt::format("deepep-v2: direct, {} cores send, {} count", roles_.sms, roles_.counters)};
  }
  return {fmt::format("deepep-v2: by rails between {} groups of {} devices, {} channels",
                      groups_.groups(), groups_.members(), roles_.channels)};
}

void DeepEpV2::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
    device.memory().store(calls(core), std::uint32_t{0});
  }
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    device.memory().store(next_slot(lane), std::uint32_t{0});
  }
}

// From 1; calls of both operations have numbers of one row.
std::uint32_t DeepEpV2::next_call(Core& core) const {
  const auto call = core.load<std::uint32_t>(calls(core.index())) + 1;
  core.write(calls(core.index()), call);
  return call;
}

emu::Task DeepEpV2::dispatch(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core);
  for (std::uint32_t local = core.index(); local < local_experts(core.rank());
       local += core.count()) {
    core.write(expert_rows(local), std::uint32_t{0});
  }
  co_await barrier_.enter(core, call);
  co_await count(core, iteration);
  if (groups_.groups() == 1) {
    if (core.index() < roles_.sms) co_await send_direct(core, iteration);
  } else {
    if (roles_.sends(core.index())) co_await send_to_rails(core, iteration);
    if (roles_.forwards(core.index())) co_await forward(core);
  }
  co_await barrier_.leave(core, call, roles_.sms, sabotage_ != "skip-flush");
  if (core.index() == 0) {
    for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
      core.write(next_slot(lane), std::uint32_t{0});
    }
  }
  if (deferred_) co_return;
  co_await core.next_kernel();
  co_await expand_all(core);
}

emu::Task DeepEpV2::count(Core& core, std::uint32_t iteration) {
  const std::uint32_t counter = core.index() - roles_.first_counter;
  if (core.index() < roles_.first_counter || counter >= roles_.counters) co_return;
  co_await counts_.run(core, counter, ids(), tokens(core.rank(), iteration), problem_.top_k());
  if (counter != 0 || !host_sync_) co_return;
  // The host sees the counts while rows are on their way, and has what it launches next ready.
  core.phase("host reads the counts");
  co_await devices::Await<devices::SpendOperation>(core, devices::Category::kHostSync,
                                                   core.costs().host_sync);
}

void DeepEpV2::give_up_left(Core& core, Leaving& leaving) const {
  while (!leaving.empty() && core.has_left(leaving.front().first)) {
    if (leaving.front().second != kNoRow) core.discard(leaving.front().second, message_stride());
    leaving.pop_front();
  }
}

emu::Task DeepEpV2::give_up(Core& core, Leaving& leaving) const {
  for (const auto& [handle, row] : leaving) {
    co_await core.wait_local(handle);
    if (row != kNoRow) core.discard(row, message_stride());
  }
  leaving.clear();
}

// A token's row comes to the core, and where NICs send it, is written to memory again.
emu::Task DeepEpV2::load_token(Core& core, std::uint32_t token, bool through_nic) {
  co_await core.stream(output_row_bytes() + problem_.top_k() * 8);
  write_token(core, token, send(token));
  co_await core.compute(cast_time());
  if (through_nic) co_await core.stream(message_bytes());
}

// Tokens are dealt to the cores. A message's slot is the next one of its destination, whichever
// core asks; a token's lanes ask at once. Devices begin with different destinations.
emu::Task DeepEpV2::send_direct(Core& core, std::uint32_t iteration) {
  core.phase("send tokens");
  Leaving leaving;
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += roles_.sms) {
    std::vector<std::uint32_t> peers = owners(ids_of(core, token));
    const auto later = std::upper_bound(peers.begin(), peers.end(), core.rank());
    std::rotate(peers.begin(), later, peers.end());
    bool through_nic = false;
    std::vector<fabric::Address> counters;
    for (const std::uint32_t peer : peers) {
      through_nic |= core.device().posts_to(peer);
      counters.push_back(next_slot(peer));
    }
    if (peers.empty()) continue;
    co_await load_token(core, token, through_nic);
    std::vector<std::uint32_t> slots(peers.size());
    co_await devices::fetch_add_each(core, counters, 1, slots);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const PutHandle handle =
          co_await core.put(peers[i], recv(core.rank(), slots[i]), send(token), message_bytes());
      leaving.emplace_back(handle, i + 1 == peers.size() ? send(token) : kNoRow);
    }
    give_up_left(core, leaving);
  }
  co_await give_up(core, leaving);
}

// Messages are dealt to all cores.
emu::Task DeepEpV2::expand_all(Core& core) {
  core.phase("copy to experts");
  std::uint32_t number = 0;
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    const auto messages = core.load<std::uint32_t>(counts_.messages(lane));
    for (std::uint32_t slot = 0; slot < messages; ++slot, ++number) {
      if (number % core.count() != core.index()) continue;
      co_await expand(core, recv(lane, slot), taken(lane, slot));
    }
  }
}

emu::Task DeepEpV2::combine(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core);
  co_await barrier_.enter(core, call);
  if (groups_.groups() == 1) {
    if (core.index() < roles_.sms) co_await return_direct(core);
  } else {
    if (roles_.sends(core.index())) co_await return_to_forwarders(core);
    if (roles_.forwards(core.index())) co_await reduce_and_return(core);
  }
  co_await barrier_.leave(core, call, roles_.sms, sabotage_ != "skip-flush");
  if (deferred_) co_return;
  co_await core.next_kernel();
  co_await reduce_all(core, iteration);
}

emu::Task DeepEpV2::return_one(Core& core, fabric::Address taken, std::uint32_t peer,
                               std::uint32_t node, Returning& returning) {
  const std::uint32_t token = taken_at(core, taken).token;
  if (!reduces_twice_) {
    for (const TakenRow& row : taken_rows(core, taken)) {
      co_await core.stream(output_row_bytes());
      co_await core.give(peer, part(row.k, node, token), expert_output(row.row),
                         output_row_bytes());
    }
    co_return;
  }
  const fabric::Address sum = stage(core.index(), returning.turn);
  co_await core.wait_local(returning.stage[returning.turn]);
  co_await sum_taken(core, taken, sum);
  if (core.device().posts_to(peer)) co_await core.stream(output_row_bytes());
  returning.stage[returning.turn] =
      co_await core.give(peer, part(member(core), node, token), sum, output_row_bytes());
  returning.turn ^= 1;
}

// Messages are dealt to the cores.
emu::Task DeepEpV2::return_direct(Core& core) {
  core.phase("send outputs");
  Returning returning;
  std::uint32_t number = 0;
  for (std::uint32_t i = 1; i <= lanes(); ++i) {
    const std::uint32_t lane = (core.rank() + i) % lanes();
    const auto messages = core.load<std::uint32_t>(counts_.messages(lane));
    for (std::uint32_t slot = 0; slot < messages; ++slot, ++number) {
      if (number % roles_.sms != core.index()) continue;
      co_await return_one(core, taken(lane, slot), lane, 0, returning);
    }
  }
}

// Tokens are dealt to all cores: by device, node or choice, ascending.
emu::Task DeepEpV2::reduce_all(Core& core, std::uint32_t iteration) {
  core.phase("reduce");
  const std::uint32_t count = tokens(core.rank(), iteration);
  const bool direct = groups_.groups() == 1;
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    std::vector<WeightedRow> rows;
    const auto ids = ids_of(core, token);
    if (reduces_twice_) {
      std::vector<std::uint32_t> from = owners(ids);
      if (!direct) {
        for (std::uint32_t& each : from) each = groups_.group_of(each);
        std::sort(from.begin(), from.end());
        from.erase(std::unique(from.begin(), from.end()), from.end());
      }
      for (const std::uint32_t each : from) {
        rows.push_back({direct ? part(each, 0, token) : combined(each, token), 1.0f});
      }
    } else {
      for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
        if (ids[k] < 0) continue;
        rows.push_back(
            {direct ? part(k, 0, token) : combined(k, token), weight_of(core, token, k)});
      }
    }
    co_await add_rows(core, output(token), std::move(rows), message_stride());
    co_await core.stream(output_row_bytes());
  }
}

ORRERY_ALGORITHM(
    deepep_v2, "deepep-v2",
    "DeepEP V2 (elastic): fixed buffers between barriers, direct or by rails between nodes",
    DeepEpV2,
    {{"quantise",
      "bf16",
      "dispatch payload: bf16, or int8 with one scale per row",
      {"bf16", "int8"}},
     {"form",
      "auto",
      "by rails where the devices sit on several nodes, as many on each; or direct from every "
      "device "
      "to every other",
      {"auto", "direct"}},
     {"group", "0", "devices per group for rails, in order; 0: those of a node", {}},
     {"sms",
      "0",
      "cores that move rows; 0: 14, by rails 12, as DeepEP's model of bandwidths (the default of "
      "its tests) has it for nodes of 8 H100 or H200, top 8 of 256 experts",
      {}},
     {"host_sync",
      "true",
      "the host reads the counts before the copy to the experts is launched, or nobody waits for "
      "it",
      {"true", "false"}},
     {"epilogue",
      "within",
      "the copy to the experts and the sum of what came back end their operations, or are "
      "operations "
      "of their own",
      {"within", "deferred"}},
     {"allow_multiple_reduction",
      "true",
      "outputs are added up, and rounded, on their device and on its node, or sent as they are",
      {"true", "false"}},
     {"release",
      "fence",
      "words follow rows by fences, or by the order of a queue pair between NICs",
      {"fence", "queue-pair"}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "skip-flush", "drop-tail"}}})

}  // namespace orrery::moe
