#include "moe/algorithms/pplx_garden.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace orrery::moe {

using devices::Core;
using devices::Piece;
using devices::Predicate;
using devices::Slots;

namespace {

std::vector<std::vector<std::uint32_t>> all_peers(const std::vector<std::uint32_t>& nodes,
                                                  bool near) {
  std::vector<std::vector<std::uint32_t>> peers;
  for (std::uint32_t device = 0; device < nodes.size(); ++device) {
    peers.push_back(peers_of(nodes, device, near));
  }
  return peers;
}

}  // namespace

PplxGarden::PplxGarden(const Problem& problem, const Options& options)
    : MessageLayer(problem, precision_named(options.text("quantise")), RowOrder::kAsTheyCome),
      PplxGardenBuffers(layout_, problem, row_stride(),
                        options.number("max_private_tokens", 1, 1u << 20)),
      far_(all_peers(problem.nodes, false)),
      near_peers_(all_peers(problem.nodes, true)),
      worker_step_(emu::from_ns(options.decimal("worker_step_ns", 0, 1e6))),
      sabotage_(options.text("sabotage")) {}

void PplxGarden::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
    device.memory().store(calls(core), std::uint32_t{0});
  }
}

std::uint64_t PplxGarden::touched_bytes(std::uint32_t device) const {
  const std::uint64_t words = std::uint64_t{problem_.devices} *
                              (problem_.placement.experts() + problem_.placement.max_local() + 2);
  return MessageLayer::touched_bytes(device) + words * 4;
}

// Calls of both operations are numbered from 1.
std::uint32_t PplxGarden::next_call(Core& core) const {
  const std::uint32_t call = core.load<std::uint32_t>(calls(core.index())) + 1;
  core.write(calls(core.index()), call);
  return call;
}

SendPlan PplxGarden::plan_of(Core& core, std::uint32_t iteration) {
  const std::uint64_t entries = std::uint64_t{tokens(core.rank(), iteration)} * problem_.top_k();
  return SendPlan(problem_.placement, core.array<std::int32_t>(ids(), entries));
}

// The barrier behind the call before, by immediates. Two counters take turns: a peer is through
// with the call after only when it has heard that this device is through with this one.
emu::Task PplxGarden::wait_peers(Core& core, std::uint32_t call) {
  core.phase("wait peers");
  if (call == 1) co_return;
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {} and every further one, once each", core.rank() == 0 ? 1 : 0);
  };
  const Slots word{through(call - 1)};
  const Predicate all = devices::word_equals(problem_.devices - 1);
  co_await core.wait_until(word, all, writer);
  core.write(through(call - 1), std::uint64_t{0});
}

// The own cores have written what is to be sent.
emu::Task PplxGarden::wait_sent(Core& core) {
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {}, each core that moves rows", core.rank());
  };
  const Slots word{sent()};
  const Predicate all = devices::word_equals(copiers(core));
  co_await core.wait_until(word, all, writer);
  core.write(sent(), std::uint64_t{0});
}

emu::Task PplxGarden::wait_slabs(Core& core, std::uint32_t expected) {
  const auto writer = [this, &core, expected](std::uint32_t) {
    std::vector<std::uint32_t> peers = far_[core.rank()];
    std::sort(peers.begin(), peers.end());
    return fmt::format("device {}: {} writes in all", fmt::join(peers, ", "), expected);
  };
  const Slots word{arrived()};
  const Predicate all = devices::word_equals(expected);
  co_await core.wait_until(word, all, writer);
  core.write(arrived(), std::uint64_t{0});
}

emu::Task PplxGarden::wait_near(Core& core, std::uint32_t source, std::uint32_t expected) {
  const auto writer = [source, expected](std::uint32_t) {
    return fmt::format("device {}, each core that puts some of its {} rows", source, expected);
  };
  const Slots word{near(source)};
  const Predicate all = devices::word_equals(expected);
  co_await core.wait_until(word, all, writer);
}

emu::Task PplxGarden::wait_worker(Core& core, fabric::Address flag, std::uint32_t call) {
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {} core 0 (worker)", core.rank());
  };
  const Slots word{flag};
  const Predicate is = devices::word_equals(call);
  co_await core.wait_until(word, is, writer);
}

emu::Task PplxGarden::write_slab(Core& core, std::uint32_t peer, std::vector<Piece> pieces,
                                 Handles& handles) {
  const bool first = core.rank() == 0 && peer == far_[0][0];
  if (sabotage_ == "drop-signal" && first) {
    if (pieces.empty()) co_return;
    const devices::PutHandle handle = co_await core.put(peer, pieces);
    handles.push_back(handle);
  } else if (pieces.empty()) {
    co_await core.atomic_add(peer, arrived(), 1);
  } else if (sabotage_ == "split-signal") {
    const devices::PutHandle handle = co_await core.put(peer, pieces);
    handles.push_back(handle);
    co_await core.atomic_add(peer, arrived(), 1);
  } else {
    const devices::PutHandle handle = co_await core.put_signal_add(peer, pieces, arrived(), 1);
    handles.push_back(handle);
  }
}

// All that came is taken: this device's counters are clean before any peer hears of it.
emu::Task PplxGarden::end_call(Core& core, std::uint32_t call) {
  co_await core.barrier();
  if (!is_worker(core)) co_return;
  core.phase("tell peers");
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    core.write(near(source), std::uint64_t{0});
  }
  for (std::uint32_t shift = 1; shift < problem_.devices; ++shift) {
    const std::uint32_t peer = (core.rank() + shift) % problem_.devices;
    co_await core.atomic_add(peer, through(call), 1);
  }
}

ORRERY_ALGORITHM(
    pplx_garden, "pplx-garden",
    "fabric-lib's all-to-all: counts and the first rows at once, writes that count themselves",
    PplxGarden,
    {{"quantise",
      "int8",
      "dispatch payload: int8 with one scale per row, or bf16",
      {"int8", "bf16"}},
     {"max_private_tokens", "256", "rows that go to each peer before counts are known", {}},
     {"worker_step_ns",
      "1",
      "the worker's time per count or row when it works out the routes (assumed; 0.3 to 3)",
      {}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "drop-signal", "split-signal"}}})

}  // namespace orrery::moe
