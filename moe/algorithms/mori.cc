#include "moe/algorithms/mori.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "devices/remote_fetch_add.h"
#include "emu/errors.h"

namespace orrery::moe {

using devices::Core;
using devices::PutHandle;

namespace {

NodeGroups one_group(const Problem& problem) {
  const bool by_nic = problem.costs.nic && !std::equal(problem.nodes.begin() + 1,
                                                       problem.nodes.end(), problem.nodes.begin());
  if (by_nic) {
    throw emu::ConfigError("--devices", "", std::to_string(problem.devices),
                           "devices of one node for mori, whose kernel loads and stores");
  }
  return NodeGroups::consecutive(problem.devices, problem.devices);
}

}  // namespace

Mori::Mori(const Problem& problem, const Options& options)
    : DedupLayer(problem, precision_named(options.text("quantise"))),
      sabotage_(options.text("sabotage")),
      barrier_(one_group(problem), problem.costs.cores, true, layout_),
      window_rows_(std::uint64_t{problem.devices} * problem.token_bound) {
  const std::uint64_t cores = problem.costs.cores;
  staged_ = message_rows(problem.token_bound);
  received_ = message_rows(2 * window_rows_);
  sums_ = message_rows(window_rows_);
  fetched_ = message_rows(cores * problem.top_k());
  taken_ = layout_.flat(window_rows_ * taken_bytes());
  offsets_ = layout_.flat(2 * 4);
  reserved_ = layout_.flat(cores * problem.devices * 4);
  sent_ = layout_.flat(std::uint64_t{problem.devices} * 4);
  told_ = layout_.flat(std::uint64_t{2} * problem.devices * 4);
  total_ = layout_.flat(4);
  places_ = layout_.flat(std::uint64_t{problem.token_bound} * problem.top_k() * 4);
  dispatch_calls_ = layout_.flat(cores * 4);
  combine_calls_ = layout_.flat(cores * 4);
  reduce_in(ReductionOrder::by_device(problem.placement));
}

// One core tells of what all have stored, when they have heard that it is visible.
Contract Mori::contract() const {
  Contract contract{Contract::Order::kNone, 4};
  contract.needs_visible_acknowledgements = true;
  return contract;
}

std::uint64_t Mori::touched_bytes(std::uint32_t device) const {
  return DedupLayer::touched_bytes(device) +
         std::uint64_t{problem_.costs.cores} * problem_.top_k() * message_stride();
}

// What peers write is 0 from the beginning.
void Mori::set_up(devices::DeviceProcess& device) {
  const auto clear = [&device](fabric::Address words, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      device.memory().store(words + i * 4, std::uint32_t{0});
    }
  };
  clear(sent_, problem_.devices);
  clear(dispatch_calls_, problem_.costs.cores);
  clear(combine_calls_, problem_.costs.cores);
}

std::uint32_t Mori::next_call(Core& core, fabric::Address of) const {
  const auto call = core.load<std::uint32_t>(calls(of, core.index())) + 1;
  core.write(calls(of, core.index()), call);
  return call;
}

emu::Task Mori::dispatch(Core& core, std::uint32_t iteration) {
  const std::uint32_t half = next_call(core, dispatch_calls_) % 2;
  for (std::uint32_t local = core.index(); local < local_experts(core.rank());
       local += core.count()) {
    core.write(expert_rows(local), std::uint32_t{0});
  }
  std::vector<std::uint32_t> slots(problem_.devices);
  co_await reserve(core, iteration, half, slots);
  co_await send(core, iteration, half, slots);
  core.phase("grid arrival");
  if (sabotage_ != "skip-release") co_await core.release();
  if (sabotage_ != "skip-arrival") co_await core.barrier();
  co_await tell_peers(core, half);
  if (core.index() == 0) co_await hear_from_peers(core, half);
  co_await core.next_kernel();
  co_await expand_all(core, half);
}

// A block's tokens are every so-many-th. Its lanes read their experts, count, and ask.
emu::Task Mori::reserve(Core& core, std::uint32_t iteration, std::uint32_t half,
                        std::vector<std::uint32_t>& slots) {
  core.phase("reserve");
  std::uint32_t own = 0;
  std::vector<std::uint32_t> rows(problem_.devices);
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count(), ++own) {
    for (const std::uint32_t peer : owners(ids_of(core, token))) ++rows[peer];
  }
  if (own == 0) co_return;
  co_await core.stream(own * problem_.top_k() * std::uint64_t{4});
  co_await core.compute(core.costs().vector(own * problem_.top_k()));
  std::vector<devices::RemoteAddition> additions;
  for (std::uint32_t i = 0; i < problem_.devices; ++i) {
    const std::uint32_t peer = (core.rank() + i) % problem_.devices;
    if (rows[peer] > 0) additions.push_back({peer, offset(half), rows[peer]});
  }
  auto asked = devices::remote_fetch_add(core, additions, reserved(core.index()));
  co_await asked;
  for (std::size_t i = 0; i < additions.size(); ++i) {
    const std::uint32_t peer = additions[i].rank;
    slots[peer] = core.load<std::uint32_t>(reserved(core.index()) + i * 4);
    co_await core.fetch_add(sent(peer), rows[peer]);
  }
}

// Each device begins with itself and the next ones.
emu::Task Mori::send(Core& core, std::uint32_t iteration, std::uint32_t half,
                     std::vector<std::uint32_t>& slots) {
  core.phase("send tokens");
  std::vector<std::pair<PutHandle, std::uint32_t>> leaving;
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    const std::vector<std::uint32_t> peers = owners(ids_of(core, token));
    if (peers.empty()) continue;
    co_await core.stream(output_row_bytes() + problem_.top_k() * std::uint64_t{8});
    write_token(core, token, staged(token));
    co_await core.compute(cast_time());
    const auto next = std::lower_bound(peers.begin(), peers.end(), core.rank()) - peers.begin();
    PutHandle last;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const std::size_t which = (static_cast<std::size_t>(next) + i) % peers.size();
      const std::uint32_t slot = slots[peers[which]]++;
      core.write(place(token, static_cast<std::uint32_t>(which)), slot);
      last = co_await core.put(peers[which], received(half, slot), staged(token), message_bytes());
    }
    leaving.emplace_back(last, token);
  }
  for (const auto& [handle, token] : leaving) {
    co_await core.wait_local(handle);
    core.discard(staged(token), message_stride());
  }
}

emu::Task Mori::tell_peers(Core& core, std::uint32_t half) {
  core.phase("tell peers");
  for (std::uint32_t i = core.index(); i < problem_.devices; i += core.count()) {
    const std::uint32_t peer = (core.rank() + i) % problem_.devices;
    const auto rows = core.load<std::uint32_t>(sent(peer));
    core.write(sent(peer), std::uint32_t{0});
    if (sabotage_ == "drop-signal" && core.rank() == 0 && peer == problem_.devices - 1) continue;
    co_await core.store(peer, told(half, core.rank()), rows + 1);
  }
}

emu::Task Mori::hear_from_peers(Core& core, std::uint32_t half) {
  core.phase("wait for counts");
  const auto writer = [&core, this](std::uint32_t peer) {
    const std::uint32_t from = (core.rank() + problem_.devices - peer) % problem_.devices;
    return fmt::format("device {} core {} (rows sent)", peer, from % core.count());
  };
  const devices::Slots all{told(half, 0), 4, 4, problem_.devices, 0};
  const devices::Predicate there = devices::word_differs(0);
  co_await core.wait_until(all, there, writer);
  std::uint32_t total = 0;
  for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
    total += core.load<std::uint32_t>(told(half, peer)) - 1;
    core.write(told(half, peer), std::uint32_t{0});
  }
  core.write(total_, total);
}

// Rows are dealt to all cores. Nobody reserves anything here any more: all have told.
emu::Task Mori::expand_all(Core& core, std::uint32_t half) {
  core.phase("copy to experts");
  const auto total = core.load<std::uint32_t>(total_);
  if (core.index() == 0 && sabotage_ != "keep-offset") {
    core.write(offset(half), std::uint32_t{0});
  }
  for (std::uint32_t row = core.index(); row < total; row += core.count()) {
    co_await expand(core, received(half, row), taken(row));
  }
}

emu::Task Mori::combine(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = next_call(core, combine_calls_);
  co_await sum_own(core);
  co_await core.barrier();
  if (sabotage_ != "skip-meeting") co_await barrier_.enter(core, call);
  co_await add_up(core, iteration);
}

// Into memory that peers may read. They have read what was there: they are a dispatch further.
emu::Task Mori::sum_own(Core& core) {
  core.phase("copy to the registered buffer");
  const auto total = core.load<std::uint32_t>(total_);
  for (std::uint32_t row = core.index(); row < total; row += core.count()) {
    co_await sum_taken(core, taken(row), sum_of(row));
    co_await core.stream(output_row_bytes());
  }
}

// Tokens are dealt to all cores: by device, ascending.
emu::Task Mori::add_up(Core& core, std::uint32_t iteration) {
  core.phase("read from peers");
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    const std::vector<std::uint32_t> peers = owners(ids_of(core, token));
    std::vector<WeightedRow> rows;
    for (std::uint32_t which = 0; which < peers.size(); ++which) {
      const fabric::Address here = fetched(core.index(), which);
      const auto slot = core.load<std::uint32_t>(place(token, which));
      co_await core.get(peers[which], sum_of(slot), here, output_row_bytes());
      rows.push_back({here, 1.0f});
    }
    co_await add_rows(core, output(token), std::move(rows), message_stride());
    co_await core.stream(output_row_bytes());
  }
}

ORRERY_ALGORITHM(mori, "mori",
                 "mori within a node: room reserved at the receiver by remote fetch-and-add, sums "
                 "read from peers",
                 Mori,
                 {{"quantise",
                   "bf16",
                   "dispatch payload: bf16, or int8 with one scale per row",
                   {"bf16", "int8"}},
                  {"sabotage",
                   "none",
                   "break it on purpose, to see how that looks",
                   {"none", "skip-release", "skip-arrival", "drop-signal", "keep-offset",
                    "skip-meeting"}}})

}  // namespace orrery::moe
