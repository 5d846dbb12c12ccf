#include "moe/algorithms/triton_a2a.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/errors.h"
#include "moe/share.h"

namespace orrery::moe::triton {

using devices::Core;
using devices::Predicate;
using devices::Slots;

namespace {
// Vector passes to count an expert's rows: subtract, abs, min with 1, sum.
constexpr int kCountPasses = 4;
}  // namespace

TritonA2a::TritonA2a(const Problem& problem, const Options& options)
    : MessageLayer(problem, precision_named(options.text("quantise")),
                   options.text("version") == "v2" ? RowOrder::kAsTheyCome : RowOrder::kSorted),
      by_token_(options.text("version") == "v2"),
      release_(options.text("release") == "fence"         ? Release::kFence
               : options.text("release") == "trust-order" ? Release::kTrustOrder
                                                          : Release::kQueuePair),
      signaling_(signaling_of(options.text("signaling"))),
      ordering_(ordering_of(options.text("ordering"))),
      group_(GroupSize::of(options)),
      sabotage_(options.text("sabotage")),
      at_(layout_, problem, row_stride()) {
  if (by_token_) return;
  if (release_ == Release::kQueuePair) {
    throw emu::ConfigError("--set", "algorithm.release", "queue-pair",
                           "fence or trust-order for version=v1, whose cores each put to peers of "
                           "their own");
  }
  if (release_ == Release::kTrustOrder && signaling_ != Signaling::kCoupled) {
    throw emu::ConfigError(
        "--set", "algorithm.release", "trust-order",
        "fence with signals that are not coupled: what version=v1 trusts is that "
        "a signal may ride on the scales' put");
  }
}

// Signals are one word. v2 tells of the rows of all cores, and where they are only acknowledged to
// be visible.
Contract TritonA2a::contract() const {
  Contract contract{Contract::Order::kNone, 4};
  if (ordering_ == Ordering::kNone || (!by_token_ && release_ == Release::kTrustOrder)) {
    contract.order = Contract::Order::kSignals;
  }
  if (!by_token_) return contract;
  if (release_ == Release::kTrustOrder) contract.order = Contract::Order::kDevicePair;
  if (release_ == Release::kQueuePair) contract.scale_out_order = Contract::Order::kSignals;
  contract.needs_visible_acknowledgements = release_ == Release::kFence;
  return contract;
}

void TritonA2a::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
    device.memory().store(at_.calls(core), std::uint32_t{0});
  }
  for (std::uint32_t expert = 0; expert < problem_.placement.experts(); ++expert) {
    device.memory().store(at_.next_slot(expert), std::uint32_t{0});
  }
}

// Calls take turns whatever they are: dispatches alone as well.
TritonA2a::Call TritonA2a::next_call(Core& core, bool back) const {
  const auto number = core.load<std::uint32_t>(at_.calls(core.index())) + 1;
  core.write(at_.calls(core.index()), number);
  const std::uint32_t set = number % 2;
  return {number, set, back};
}

emu::Task TritonA2a::dispatch(Core& core, std::uint32_t iteration) {
  const Call call = next_call(core, false);
  if (by_token_) {
    co_await send_tokens(core, iteration, call);
    co_await exchange(core, call);
    co_await core.barrier();
    co_await receive_tokens(core, call);
    co_return;
  }
  co_await count_rows(core, iteration);
  co_await permute(core, iteration);
  co_await core.next_kernel();
  co_await exchange(core, call);
  co_await core.next_kernel();
  co_await sort(core, call);
}

emu::Task TritonA2a::combine(Core& core, std::uint32_t iteration) {
  const Call call = next_call(core, true);
  if (by_token_) {
    co_await send_outputs(core, call);
    co_await exchange(core, call);
    co_await core.barrier();
  } else {
    co_await unsort(core, call);
    co_await core.next_kernel();
    co_await exchange(core, call);
    co_await core.next_kernel();
  }
  co_await reduce(core, iteration, call);
}

std::vector<std::vector<std::uint32_t>> TritonA2a::groups_of(const Core& core) const {
  const std::uint32_t peers = core.ranks();
  const std::uint32_t size =
      signaling_ == Signaling::kDecoupled && group_.puts > 0 ? std::min(group_.puts, peers) : 1;
  const std::uint32_t groups = (peers + size - 1) / size;
  std::vector<std::vector<std::uint32_t>> mine;
  for (std::uint32_t group = core.index(); group < groups; group += core.count()) {
    std::vector<std::uint32_t>& members = mine.emplace_back();
    for (std::uint32_t i = group * size; i < std::min((group + 1) * size, peers); ++i) {
      members.push_back((core.rank() + i) % peers);
    }
  }
  return mine;
}

// What is put to each peer, its signal, and every peer's signal to this device.
emu::Task TritonA2a::exchange(Core& core, Call call) {
  core.phase("all-to-all");
  const std::vector<std::vector<std::uint32_t>> groups = groups_of(core);
  std::vector<Sent> sent;
  for (const std::vector<std::uint32_t>& peers : groups) {
    for (const std::uint32_t peer : peers) co_await put_parcel(core, call, peer, sent);
    if (signaling_ != Signaling::kReordered) co_await tell_all(core, call, peers);
  }
  if (signaling_ == Signaling::kReordered) {
    co_await core.barrier();
    for (const std::vector<std::uint32_t>& peers : groups) co_await tell_all(core, call, peers);
  }
  co_await wait_signals(core, call);
  for (const Sent& each : sent) {
    co_await core.wait_local(each.handle);
    for (const fabric::Address row : each.rows) core.discard(row, row_stride());
  }
}

emu::Task TritonA2a::put_parcel(Core& core, Call call, std::uint32_t peer,
                                std::vector<Sent>& sent) {
  use_queue_to(core, peer);
  if (!by_token_) co_return co_await put_slab(core, call, peer, sent);
  if (!call.back) co_await put_counts(core, call, peer, sent);
}

// One fence, and the signals of the peers that it is for.
emu::Task TritonA2a::tell_all(Core& core, Call call, const std::vector<std::uint32_t>& peers) {
  use_queue_to(core, peers.front());
  co_await order_signals(core, ordering_);
  for (const std::uint32_t peer : peers) {
    if (drops(core, peer) || rides(call)) continue;
    use_queue_to(core, peer);
    co_await core.signal(peer, at_.signal(call.set, core.rank()), call.number,
                         ordering_ == Ordering::kNicFence);
  }
}

emu::Task TritonA2a::wait_signals(Core& core, Call call) {
  core.phase("wait signals");
  for (const std::vector<std::uint32_t>& peers : groups_of(core)) {
    for (const std::uint32_t peer : peers) {
      const auto writer = [peer, call](std::uint32_t) {
        return fmt::format("device {} (signal of call {})", peer, call.number);
      };
      const Slots slot{at_.signal(call.set, peer)};
      const Predicate called = devices::word_equals(call.number);
      co_await core.wait_until(slot, called, writer);
    }
  }
}

// Experts are split over the cores: how many rows each gets.
emu::Task TritonA2a::count_rows(Core& core, std::uint32_t iteration) {
  core.phase("count rows");
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  const Share mine = share(problem_.placement.experts(), core.count(), core.index());
  std::vector<std::uint32_t> rows(mine.size(), 0);
  for (const std::int32_t id : ids) {
    const auto expert = static_cast<std::uint32_t>(id);
    if (id >= 0 && expert >= mine.begin && expert < mine.end) ++rows[expert - mine.begin];
  }
  for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
    const std::uint32_t local = problem_.placement.local_index(expert);
    core.write(at_.splits_out(problem_.placement.owner(expert)) + local * 4ull,
               rows[expert - mine.begin]);
  }
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(mine.size() * kCountPasses * core.costs().vector(entries));
}

// Tokens are dealt to the cores: add a token's rows in ascending k.
emu::Task TritonA2a::reduce(Core& core, std::uint32_t iteration, Call call) {
  core.phase("reduce");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    const std::uint64_t first = std::uint64_t{token} * top_k;
    const auto ids = ids_of(core, token);
    const auto weights = weights_of(core, token);
    std::vector<WeightedRow> rows;
    for (std::uint32_t k = 0; k < top_k; ++k) {
      if (ids[k] < 0) continue;
      const auto expert = static_cast<std::uint32_t>(ids[k]);
      const fabric::Address row = by_token_
                                      ? at_.combine_slot(call.set, expert, token)
                                      : at_.slab_in(call.set, problem_.placement.owner(expert),
                                                    core.load<std::uint32_t>(at_.place(first + k)));
      rows.push_back({row, weights[k]});
    }
    co_await add_rows(core, token, std::move(rows));
  }
}

namespace {
std::vector<OptionSpec> triton_options() {
  std::vector<OptionSpec> options = {
      {"version", "v1", "a slab per peer, or a put per row", {"v1", "v2"}},
      {"quantise",
       "int8",
       "dispatch payload: int8 with one scale per row, or bf16",
       {"int8", "bf16"}},
      {"release",
       "fence",
       "signals follow their rows by fences, for v2 by the order of a queue pair between NICs, or "
       "as in the source, which relies on order: in v1 the signal rides on the scales' put, in v2 "
       "cores only meet",
       {"fence", "queue-pair", "trust-order"}}};
  for (OptionSpec& each : signal_options(false)) options.push_back(std::move(each));
  options.push_back(
      {"sabotage", "none", "break it on purpose, to see how that looks", {"none", "drop-signal"}});
  return options;
}
}  // namespace

ORRERY_ALGORITHM(triton_a2a, "triton-a2a", "Triton-distributed's low-latency all-to-all, v1 and v2",
                 TritonA2a, triton_options())

}  // namespace orrery::moe::triton
