#include "moe/algorithms/hybrid_ep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emu/errors.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

namespace {

// Tokens of a chunk, in what its kernels are made for.
constexpr std::uint32_t kChunkUnit = 64;

NodeGroups groups_of(const Problem& problem, const Options& options) {
  const auto size = options.number("group", 0, 1u << 20);
  return size == 0 ? NodeGroups(problem.nodes) : NodeGroups::consecutive(problem.devices, size);
}

std::uint32_t chunk_of(const Options& options) {
  const auto tokens =
      static_cast<std::uint32_t>(options.number("chunk_tokens", kChunkUnit, 1u << 20));
  if (tokens % kChunkUnit != 0) {
    throw emu::ConfigError("--set", "algorithm.chunk_tokens", options.text("chunk_tokens"),
                           "a multiple of 64");
  }
  return tokens;
}

// A block is two cores.
std::uint32_t blocks_of(const Problem& problem, const Options& options) {
  const auto asked = static_cast<std::uint32_t>(options.number("blocks", 1, 1024));
  return std::max(1u, std::min(asked, problem.costs.cores / 2));
}

}  // namespace

HybridEp::HybridEp(const Problem& problem, const Options& options)
    : HybridEp(problem, options, groups_of(problem, options)) {}

HybridEp::HybridEp(const Problem& problem, const Options& options, const NodeGroups& groups)
    : DedupLayer(problem, precision_named(options.text("quantise"))),
      groups_(groups),
      chunk_(chunk_of(options)),
      blocks_(blocks_of(problem, options)),
      fenced_(options.text("release") == "fence"),
      sabotage_(options.text("sabotage")),
      maps_(groups, problem.placement, problem.token_bound, problem.top_k(), layout_),
      barrier_(groups, problem.costs.cores, true, layout_) {
  const std::uint64_t tokens = problem.token_bound;
  const std::uint64_t rows = problem.devices * tokens;
  const std::uint64_t of_rail = groups.groups() * tokens;
  staged_ = message_rows(tokens);
  passing_ = message_rows(of_rail);
  received_ = message_rows(rows);
  sums_ = message_rows(rows);
  fetched_ = message_rows(std::uint64_t{problem.costs.cores} * groups.members());
  leaving_ = message_rows(of_rail);
  returned_ = message_rows(of_rail);
  taken_ = layout_.flat(rows * taken_bytes());
  flags_ =
      layout_.flat(std::uint64_t{kOperations} * groups.groups() * chunks(problem.token_bound) * 8);
  calls_ = layout_.flat(std::uint64_t{kOperations} * problem.costs.cores * 4);
  std::vector<std::uint32_t> node(problem.devices);
  for (std::uint32_t device = 0; device < problem.devices; ++device) {
    node[device] = groups_.group_of(device);
  }
  reduce_in(ReductionOrder::by_device(problem.placement, node));
}

// A chunk's count is of 8 bytes. Without a fence it follows the rows by the order of its queue
// pair.
// What passes through in both directions, and the routing of all devices with the rows that it
// gives.
std::uint64_t HybridEp::touched_bytes(std::uint32_t device) const {
  const std::uint64_t routing =
      4 + std::uint64_t{problem_.token_bound} * (problem_.top_k() + 1) * 4;
  return DedupLayer::touched_bytes(device) + 2 * passing_bytes(device, groups_.groups()) +
         problem_.devices * routing;
}

Contract HybridEp::contract() const {
  Contract contract{Contract::Order::kNone, 8};
  if (!fenced_) contract.scale_out_order = Contract::Order::kSignals;
  return contract;
}

std::vector<std::string> HybridEp::notes() const {
  return {fmt::format("hybrid-ep: {} nodes of {} devices, {} blocks, chunks of {} tokens",
                      groups_.groups(), groups_.members(), blocks_, chunk_)};
}

void HybridEp::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
    device.memory().store(calls(kOut, core), std::uint32_t{0});
    device.memory().store(calls(kBack, core), std::uint32_t{0});
  }
  for (std::uint32_t node = 0; node < groups_.groups(); ++node) {
    for (std::uint32_t chunk = 0; chunk < chunks(problem_.token_bound); ++chunk) {
      device.memory().store(flag(kOut, node, chunk), std::uint64_t{0});
      device.memory().store(flag(kBack, node, chunk), std::uint64_t{0});
    }
  }
}

std::uint32_t HybridEp::next_call(Core& core, Operation operation) const {
  const auto call = core.load<std::uint32_t>(calls(operation, core.index())) + 1;
  core.write(calls(operation, core.index()), call);
  return call;
}

emu::Task HybridEp::dispatch(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core, kOut);
  for (std::uint32_t local = core.index(); local < local_experts(core.rank());
       local += core.count()) {
    core.write(expert_rows(local), std::uint32_t{0});
  }
  co_await maps_.gather(core, call, ids(), tokens(core.rank(), iteration));
  co_await core.next_kernel();
  co_await maps_.scan(core);
  co_await stage_tokens(core, iteration);
  co_await core.next_kernel();
  if (core.index() < blocks_) co_await send_to_nodes(core);
  if (core.count() == 1 || (core.index() >= blocks_ && core.index() < 2 * blocks_)) {
    co_await spread(core, call);
  }
  co_await barrier_.leave(core, 2 * call - 1, std::min(2 * blocks_, core.count()),
                          sabotage_ != "skip-flush");
  co_await core.next_kernel();
  co_await expand_all(core);
}

// Tokens are dealt to all cores: into memory that NICs and peers may use, quantised if asked for.
emu::Task HybridEp::stage_tokens(Core& core, std::uint32_t iteration) {
  core.phase("copy to the registered buffer");
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    co_await core.stream(output_row_bytes() + problem_.top_k() * 8);
    write_token(core, token, staged(token));
    co_await core.compute(cast_time());
    co_await core.stream(message_bytes());
  }
}

// N2N. Chunks are dealt to the blocks, each to the nodes that need any of it. A count follows every
// chunk that there could be: all devices know how often.
emu::Task HybridEp::send_to_nodes(Core& core) {
  core.phase("N2N");
  std::vector<PutHandle> sent;
  const std::uint32_t count = maps_.tokens(core, group(core));
  for (std::uint32_t chunk = core.index(); chunk < chunks(problem_.token_bound); chunk += blocks_) {
    for (std::uint32_t i = 1; i < groups_.groups(); ++i) {
      const std::uint32_t node = (group(core) + i) % groups_.groups();
      for (std::uint32_t token = chunk * chunk_; token < end_of(chunk, count); ++token) {
        const std::vector<std::uint32_t> nodes = maps_.nodes(core, token);
        if (!std::binary_search(nodes.begin(), nodes.end(), node)) continue;
        sent.push_back(co_await core.put(rail(core, node), passing(group(core), token),
                                         staged(token), message_bytes()));
      }
      co_await tell(core, kOut, node, chunk);
    }
  }
  for (const PutHandle& handle : sent) co_await core.wait_local(handle);
}

emu::Task HybridEp::tell(Core& core, Operation operation, std::uint32_t node, std::uint32_t chunk) {
  if (sabotage_ == "drop-chunk" && core.rank() == 0 && chunk == 0 && operation == kOut) co_return;
  const std::uint32_t peer = rail(core, node);
  if (fenced_ || !core.device().posts_to(peer)) co_await core.fence();
  co_await core.atomic_add(peer, flag(operation, group(core), chunk), 1);
}

emu::Task HybridEp::wait(Core& core, Operation operation, std::uint32_t node, std::uint32_t chunk,
                         std::uint32_t call) {
  const auto writer = [this, &core, node, chunk](std::uint32_t) {
    return fmt::format("device {} core {} (chunk {})", rail(core, node), chunk % blocks_, chunk);
  };
  const Slots word{flag(operation, node, chunk), 8, 8, 1, 0};
  const devices::Predicate there = devices::word_equals(call);
  co_await core.wait_until(word, there, writer);
}

// G2S and S2G. The own node's chunks first, then those of other nodes as they come.
emu::Task HybridEp::spread(Core& core, std::uint32_t call) {
  core.phase("G2S and S2G");
  const std::uint32_t first = core.index() % blocks_;
  for (std::uint32_t i = 0; i < groups_.groups(); ++i) {
    const std::uint32_t node = (group(core) + i) % groups_.groups();
    for (std::uint32_t chunk = first; chunk < chunks(problem_.token_bound); chunk += blocks_) {
      if (i > 0) co_await wait(core, kOut, node, chunk, call);
      co_await spread_chunk(core, node, chunk);
    }
  }
}

emu::Task HybridEp::spread_chunk(Core& core, std::uint32_t node, std::uint32_t chunk) {
  const bool own = node == group(core);
  const std::uint32_t count = maps_.tokens(core, node);
  std::vector<PutHandle> sent;
  for (std::uint32_t token = chunk * chunk_; token < end_of(chunk, count); ++token) {
    const std::vector<std::uint32_t> members = maps_.members(core, node, token);
    if (members.empty()) continue;
    const fabric::Address from = own ? staged(token) : passing(node, token);
    if (!own) core.accept(from, message_bytes());
    co_await core.stream(message_bytes());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::uint32_t to = members[(i + member(core)) % members.size()];
      const std::uint32_t row = maps_.row(core, node, token, to);
      sent.push_back(
          co_await core.put(groups_.device(group(core), to), received(row), from, message_bytes()));
    }
  }
  for (const PutHandle& handle : sent) co_await core.wait_local(handle);
}

// Rows are dealt to all cores. What was sent has left by now.
emu::Task HybridEp::expand_all(Core& core) {
  core.phase("permute");
  for (std::uint32_t row = core.index(); row < maps_.received(core); row += core.count()) {
    co_await expand(core, received(row), taken(row));
  }
  for (std::uint32_t node = 0; node < groups_.groups(); ++node) {
    const std::uint32_t count = maps_.tokens(core, node);
    for (std::uint32_t token = core.index(); token < count; token += core.count()) {
      core.discard(node == group(core) ? staged(token) : passing(node, token), message_stride());
    }
  }
}

emu::Task HybridEp::combine(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core, kBack);
  const std::uint32_t meeting = 2 * call;
  co_await sum_own(core);
  co_await core.next_kernel();
  co_await barrier_.enter(core, meeting);
  if (core.index() < blocks_) co_await reduce_for_nodes(core);
  if (core.count() == 1 || (core.index() >= blocks_ && core.index() < 2 * blocks_)) {
    co_await reduce_own(core, iteration, call);
  }
  co_await barrier_.leave(core, meeting, std::min(2 * blocks_, core.count()),
                          sabotage_ != "skip-flush");
  co_await core.barrier();
  const std::uint32_t rows = maps_.received(core);
  for (std::uint32_t row = core.index(); row < rows; row += core.count()) {
    core.discard(sum_of(row), message_stride());
  }
}

// Rows are dealt to all cores: the outputs of a row's experts on this device, into memory that
// peers may read.
emu::Task HybridEp::sum_own(Core& core) {
  core.phase("permute back");
  for (std::uint32_t row = core.index(); row < maps_.received(core); row += core.count()) {
    co_await sum_taken(core, taken(row), sum_of(row));
    co_await core.stream(output_row_bytes());
  }
}

// What the members of this node have of a token, read from them one by one, in their order.
emu::Task HybridEp::reduce_members(Core& core, std::uint32_t node, std::uint32_t token,
                                   fabric::Address to) {
  std::vector<WeightedRow> rows;
  for (const std::uint32_t each : maps_.members(core, node, token)) {
    const fabric::Address there = sum_of(maps_.row(core, node, token, each));
    const fabric::Address here = fetched(core.index(), each);
    if (each == member(core)) {
      rows.push_back({there, 1.0f});
      continue;
    }
    co_await core.get(groups_.device(group(core), each), there, here, output_row_bytes());
    rows.push_back({here, 1.0f});
  }
  co_await add_rows(core, to, std::move(rows), message_stride());
}

// Chunks of other nodes are dealt to the blocks.
emu::Task HybridEp::reduce_for_nodes(Core& core) {
  core.phase("intra-node reduce and N2N");
  for (std::uint32_t chunk = core.index(); chunk < chunks(problem_.token_bound); chunk += blocks_) {
    for (std::uint32_t i = 1; i < groups_.groups(); ++i) {
      const std::uint32_t node = (group(core) + i) % groups_.groups();
      const std::uint32_t count = maps_.tokens(core, node);
      for (std::uint32_t token = chunk * chunk_; token < end_of(chunk, count); ++token) {
        const std::vector<std::uint32_t> members = maps_.members(core, node, token);
        if (members.empty()) continue;
        co_await reduce_members(core, node, token, leaving(node, token));
        co_await core.stream(output_row_bytes());
        co_await core.give(rail(core, node), returned(group(core), token), leaving(node, token),
                           output_row_bytes());
      }
      co_await tell(core, kBack, node, chunk);
    }
  }
}

// The own chunks are dealt to the blocks: this node's rows while those of others are on their way.
emu::Task HybridEp::reduce_own(Core& core, std::uint32_t iteration, std::uint32_t call) {
  core.phase("inter-node reduce");
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t chunk = core.index() % blocks_; chunk < chunks(problem_.token_bound);
       chunk += blocks_) {
    for (std::uint32_t token = chunk * chunk_; token < end_of(chunk, count); ++token) {
      const std::vector<std::uint32_t> members = maps_.members(core, group(core), token);
      if (members.empty()) continue;
      co_await reduce_members(core, group(core), token, returned(group(core), token));
    }
    for (std::uint32_t i = 1; i < groups_.groups(); ++i) {
      const std::uint32_t node = (group(core) + i) % groups_.groups();
      co_await wait(core, kBack, node, chunk, call);
    }
    for (std::uint32_t token = chunk * chunk_; token < end_of(chunk, count); ++token) {
      std::vector<WeightedRow> rows;
      for (const std::uint32_t node : maps_.nodes(core, token)) {
        rows.push_back({returned(node, token), 1.0f});
      }
      co_await add_rows(core, output(token), std::move(rows), message_stride());
      co_await core.stream(output_row_bytes());
    }
  }
}

ORRERY_ALGORITHM(
    hybrid_ep, "hybrid-ep",
    "Hybrid-EP: all-gathered routing, chunks of tokens through NICs and to the node", HybridEp,
    {{"quantise",
      "bf16",
      "dispatch payload: bf16, or int8 with one scale per row",
      {"bf16", "int8"}},
     {"chunk_tokens", "128", "tokens of a chunk, a multiple of 64", {}},
     {"blocks", "24", "blocks, of two cores each (assumed)", {}},
     {"group", "0", "devices per node, in order; 0: as they are", {}},
     {"release",
      "fence",
      "a chunk's count follows its rows by a fence, or by the order of a queue pair between NICs",
      {"fence", "queue-pair"}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "skip-flush", "drop-chunk"}}})

}  // namespace orrery::moe
