// put-signal: what it costs to tell a peer on another node that a put has arrived, as a function of
// how many are under way (arXiv 2605.00686). Half of the devices send so many transfers to devices
// of other nodes; an operation ends at a sender when its puts and signals are acknowledged, and at
// a receiver when all signals are there.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "emu/digest.h"
#include "emu/errors.h"
#include "emu/random.h"
#include "moe/algorithm.h"
#include "moe/algorithms/signals.h"
#include "moe/pattern.h"

namespace orrery::moe {

namespace {

using devices::Core;

class PutSignal final : public Algorithm {
 public:
  PutSignal(const Problem& problem, const Options& options)
      : problem_(problem),
        bytes_(static_cast<std::uint32_t>(options.number("bytes", 1, std::uint64_t{1} << 30))),
        concurrent_(static_cast<std::uint32_t>(options.number("concurrent", 1, 1u << 16))),
        cores_(static_cast<std::uint32_t>(options.number("cores", 1, problem.costs.cores))),
        signaling_(signaling_of(options.text("signaling"))),
        ordering_(ordering_of(options.text("ordering"))),
        group_(GroupSize::of(options)),
        sabotage_(options.text("sabotage")),
        stride_(align_up(bytes_, kFlagStride)),
        outgoing_(problem.devices),
        incoming_(problem.devices) {
    make_transfers(options);
    std::size_t most_in = 0;
    for (const auto& each : incoming_) most_in = std::max(most_in, each.size());
    if (problem.control) layout_.carry_only({{0, held_bytes()}});
    slots_ = static_cast<std::uint32_t>(most_in);
    out_ = layout_.rows(concurrent_, stride_);
    in_ = layout_.rows(std::uint64_t{problem.iterations} * slots_, stride_);
    flags_ = layout_.flat(std::uint64_t{slots_} * kFlagStride);
  }

  std::vector<std::string> operations() const override {
    return signaling_ == Signaling::kNone ? std::vector<std::string>{"put", "signal"}
                                          : std::vector<std::string>{"put"};
  }
  Contract contract() const override {
    return {ordering_ == Ordering::kNone && signaling_ != Signaling::kNone
                ? Contract::Order::kCorePair
                : Contract::Order::kNone,
            sizeof(Signal)};
  }
  const Layout& layout() const override { return layout_; }
  std::uint64_t touched_bytes(std::uint32_t device) const override {
    return outgoing_[device].size() * stride_ +
           incoming_[device].size() * (stride_ * problem_.iterations + kFlagStride);
  }
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t) const override {
    if (operation != 0) return 0;
    std::uint64_t transfers = 0;
    for (const auto& each : outgoing_) transfers += each.size();
    return transfers * bytes_;
  }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return cores_; }
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override;
  emu::Task program(Core& core, std::uint32_t operation, std::uint32_t iteration) override {
    return operation == 0 ? put(core, iteration) : send_signals(core, iteration);
  }
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

 private:
  struct Transfer {
    std::uint32_t peer;    // the other device
    std::uint32_t slot;    // at the receiver
    std::uint32_t number;  // of the sender's
  };
  // Of a slot: the iterations whose put has arrived, and which transfer that is.
  struct Signal {
    std::uint32_t arrived;
    std::uint32_t number;
  };

  void make_transfers(const Options& options);
  std::uint32_t held_bytes() const { return problem_.control ? std::min(bytes_, 16u) : bytes_; }
  fabric::Address out(std::uint32_t number) const { return out_ + number * stride_; }
  // Nothing flows back, so every iteration has a buffer of its own.
  fabric::Address in(std::uint32_t iteration, std::uint32_t slot) const {
    return in_ + (std::uint64_t{iteration} * slots_ + slot) * stride_;
  }
  fabric::Address flag(std::uint32_t slot) const { return flags_ + slot * kFlagStride; }
  std::uint64_t pattern_seed(std::uint32_t number) const {
    return emu::combine64(problem_.seed, number);
  }
  bool skips_fences() const { return sabotage_ == "skip-fence"; }
  bool drops(const Core& core, const Transfer& transfer) const {
    return sabotage_ == "drop-signal" && core.rank() == 0 && transfer.number == 0;
  }
  static std::uint64_t signal_value(const Transfer& transfer, std::uint32_t iteration) {
    return (std::uint64_t{transfer.number} << 32) | (iteration + 1);
  }
  std::vector<Transfer> transfers_of(const Core& core) const;
  std::vector<std::uint32_t> groups_of(const std::vector<Transfer>& mine) const;
  emu::Task fence(Core& core) {
    return order_signals(core, skips_fences() ? Ordering::kNone : ordering_);
  }
  emu::Task tell(Core& core, const Transfer& transfer, std::uint32_t iteration);
  emu::Task put(Core& core, std::uint32_t iteration);
  emu::Task put_coupled(Core& core, std::uint32_t iteration);
  emu::Task put_in_groups(Core& core, std::uint32_t iteration);
  emu::Task send_signals(Core& core, std::uint32_t iteration);
  emu::Task wait_for_signals(Core& core, std::uint32_t iteration);

  static constexpr std::uint64_t kFlagStride = 512;  // no shipped fabric's block is larger

  const Problem& problem_;
  const std::uint32_t bytes_;
  const std::uint32_t concurrent_;
  const std::uint32_t cores_;
  const Signaling signaling_;
  const Ordering ordering_;
  const GroupSize group_;
  const std::string sabotage_;
  const std::uint64_t stride_;
  std::vector<std::vector<Transfer>> outgoing_;  // by device
  std::vector<std::vector<Transfer>> incoming_;  // by device, then slot
  std::uint32_t slots_ = 0;
  Layout layout_;
  fabric::Address out_ = 0;
  fabric::Address in_ = 0;
  fabric::Address flags_ = 0;
};

// A sender goes round the devices of other nodes, beginning with the next one; round all others
// where there is but one node.
void PutSignal::make_transfers(const Options& options) {
  const std::uint32_t devices = problem_.devices;
  if (devices < 2) {
    throw emu::ConfigError("--devices", "", std::to_string(devices), "at least 2 for put-signal");
  }
  const std::uint64_t senders = options.text("senders") == "half"
                                    ? std::max(devices / 2, 1u)
                                    : options.number("senders", 1, devices);
  const auto limit = static_cast<std::uint32_t>(options.number("peers", 0, devices));
  for (std::uint32_t sender = 0; sender < senders; ++sender) {
    std::vector<std::uint32_t> near;
    std::vector<std::uint32_t> peers;
    for (std::uint32_t shift = 1; shift < devices; ++shift) {
      const std::uint32_t peer = (sender + shift) % devices;
      (problem_.nodes[peer] == problem_.nodes[sender] ? near : peers).push_back(peer);
    }
    if (peers.empty()) peers = near;
    if (limit > 0) peers.resize(std::min<std::size_t>(peers.size(), limit));
    for (std::uint32_t number = 0; number < concurrent_; ++number) {
      const std::uint32_t peer = peers[number % peers.size()];
      const auto slot = static_cast<std::uint32_t>(incoming_[peer].size());
      outgoing_[sender].push_back({peer, slot, number});
      incoming_[peer].push_back({sender, slot, number});
    }
  }
}

void PutSignal::prepare(devices::DeviceProcess& device, std::uint32_t iteration) {
  for (const Transfer& transfer : outgoing_[device.rank()]) {
    fill_pattern(pattern_seed(transfer.number), iteration, device.rank(), transfer.peer,
                 device.memory().view(out(transfer.number), held_bytes()));
  }
}

std::vector<PutSignal::Transfer> PutSignal::transfers_of(const Core& core) const {
  std::vector<Transfer> mine;
  const auto& all = outgoing_[core.rank()];
  for (std::size_t i = core.index(); i < all.size(); i += core.count()) mine.push_back(all[i]);
  return mine;
}

emu::Task PutSignal::put(Core& core, std::uint32_t iteration) {
  core.phase("put to peers");
  if (signaling_ == Signaling::kCoupled) {
    co_await put_coupled(core, iteration);
  } else {
    co_await put_in_groups(core, iteration);
  }
  core.phase("quiet");
  co_await core.quiet();
  if (signaling_ != Signaling::kNone && core.index() == 0) {
    co_await wait_for_signals(core, iteration);
  }
}

emu::Task PutSignal::tell(Core& core, const Transfer& transfer, std::uint32_t iteration) {
  if (drops(core, transfer)) co_return;
  co_await signal(core, transfer.peer, flag(transfer.slot), signal_value(transfer, iteration),
                  ordering_ == Ordering::kNicFence && !skips_fences());
}

emu::Task PutSignal::put_coupled(Core& core, std::uint32_t iteration) {
  for (const Transfer& transfer : transfers_of(core)) {
    if (is_one_request(core, transfer.peer, ordering_) && !skips_fences() &&
        !drops(core, transfer)) {
      const devices::Piece piece{in(iteration, transfer.slot), out(transfer.number), bytes_};
      const std::span<const devices::Piece> pieces(&piece, 1);
      co_await core.put_signal(transfer.peer, pieces, flag(transfer.slot),
                               signal_value(transfer, iteration));
      continue;
    }
    co_await core.give(transfer.peer, in(iteration, transfer.slot), out(transfer.number), bytes_);
    co_await fence(core);
    co_await tell(core, transfer, iteration);
  }
}

// By transfer, the group that it is of.
std::vector<std::uint32_t> PutSignal::groups_of(const std::vector<Transfer>& mine) const {
  std::vector<std::uint32_t> groups;
  for (std::uint32_t i = 0; i < mine.size(); ++i) {
    switch (signaling_) {
      case Signaling::kDecoupled:
        groups.push_back(group_.puts > 0 ? i / group_.puts : mine[i].peer);
        break;
      default:
        groups.push_back(0);
    }
  }
  return groups;
}

// Puts in their order; behind the last one of a group its signals.
emu::Task PutSignal::put_in_groups(Core& core, std::uint32_t iteration) {
  const std::vector<Transfer> mine = transfers_of(core);
  const std::vector<std::uint32_t> groups = groups_of(mine);
  for (std::uint32_t i = 0; i < mine.size(); ++i) {
    co_await core.give(mine[i].peer, in(iteration, mine[i].slot), out(mine[i].number), bytes_);
    const bool last = std::find(groups.begin() + i + 1, groups.end(), groups[i]) == groups.end();
    if (!last || signaling_ == Signaling::kNone) continue;
    if (signaling_ == Signaling::kDecoupled) co_await fence(core);
    for (std::uint32_t j = 0; j <= i; ++j) {
      if (groups[j] != groups[i]) continue;
      if (signaling_ == Signaling::kReordered) co_await fence(core);
      co_await tell(core, mine[j], iteration);
    }
  }
}

emu::Task PutSignal::send_signals(Core& core, std::uint32_t iteration) {
  core.phase("send signals");
  for (const Transfer& transfer : transfers_of(core)) co_await tell(core, transfer, iteration);
  if (core.index() == 0) co_await wait_for_signals(core, iteration);
  // The next iteration's signal may not overtake this one.
  co_await core.quiet();
}

emu::Task PutSignal::wait_for_signals(Core& core, std::uint32_t iteration) {
  core.phase("wait for signals");
  const auto& incoming = incoming_[core.rank()];
  const auto writer = [&incoming](std::uint32_t slot) {
    return fmt::format("device {} (transfer {})", incoming[slot].peer, incoming[slot].number);
  };
  const devices::Slots all{flags_, 4, kFlagStride, static_cast<std::uint32_t>(incoming.size())};
  const devices::Predicate ready = devices::word_at_least(iteration + 1);
  co_await core.wait_until(all, ready, writer);
  for (const Transfer& transfer : incoming) core.accept(in(iteration, transfer.slot), bytes_);
}

Verdict PutSignal::verify(devices::DeviceProcess& device, std::uint32_t operation,
                          std::uint32_t iteration) {
  thread_local std::vector<std::byte> scratch;
  Verdict verdict;
  if (operation + 1 < operations().size()) return verdict;  // nothing is known to have arrived yet
  const fabric::Memory& memory = device.memory();
  for (const Transfer& transfer : incoming_[device.rank()]) {
    const auto bytes = memory.view(in(iteration, transfer.slot), held_bytes());
    const auto found = memory.load<Signal>(flag(transfer.slot));
    if (verdict.ok && !matches_pattern(pattern_seed(transfer.number), iteration, transfer.peer,
                                       device.rank(), bytes, scratch)) {
      verdict.ok = false;
      verdict.what = fmt::format("the {} bytes of transfer {} from device {} are not what it sent",
                                 bytes_, transfer.number, transfer.peer);
    } else if (verdict.ok && (found.number != transfer.number || found.arrived <= iteration ||
                              found.arrived > problem_.iterations)) {
      verdict.ok = false;
      verdict.what =
          fmt::format("the signal of transfer {} from device {} says transfer {}, call {}",
                      transfer.number, transfer.peer, found.number, found.arrived);
    }
    verdict.digest = emu::digest_bytes(bytes, verdict.digest);
  }
  return verdict;
}

std::vector<OptionSpec> put_signal_options() {
  std::vector<OptionSpec> options = {
      {"bytes", "16384", "bytes of a put", {}},
      {"concurrent", "32", "transfers of a sender that are under way at once", {}},
      {"senders", "half", "devices that send, the first ones, or half of them", {}},
      {"peers", "0", "devices that each sender puts to in turn; 0: all of other nodes", {}},
      {"cores", "1", "cores of a sender, which deal its transfers among them", {}}};
  for (OptionSpec& each : signal_options(true)) options.push_back(std::move(each));
  options.push_back({"sabotage",
                     "none",
                     "break it on purpose, to see how that looks",
                     {"none", "skip-fence", "drop-signal"}});
  return options;
}

}  // namespace

ORRERY_ALGORITHM(put_signal, "put-signal", "puts to other nodes, each with a signal", PutSignal,
                 put_signal_options())

}  // namespace orrery::moe
