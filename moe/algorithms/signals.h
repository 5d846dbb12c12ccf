// How puts are signalled where ordering costs something, as Perseus compares it (arXiv 2605.00686):
// what put_signal.cc measures, what flashmoe.h sends its packets with and triton_a2a.h its slabs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/options.h"

namespace orrery::moe {

/// When the signals of a phase's puts are issued.
enum class Signaling : std::uint8_t {
  kCoupled,    // each right behind its put
  kReordered,  // all behind all puts of the phase, each with a fence of its own
  kDecoupled,  // those of a group behind the group's last put and one fence
  kNone,       // not at all: a quiet() tells that puts have arrived
};

/// What keeps a signal behind the puts that it tells of.
enum class Ordering : std::uint8_t {
  kProxyFence,  // a fence() before it
  kNicFence,    // the signal's own fence flag, which the NIC obeys
  kNone,        // the fabric's order between the puts of a core to a device, or nothing
};

Signaling signaling_of(const std::string& text);
Ordering ordering_of(const std::string& text);

/// Puts per group, for Signaling::kDecoupled: a number, or all to one destination.
struct GroupSize {
  std::uint32_t puts = 0;  // 0: by destination
  static GroupSize of(const Options& options);
};

/// The options `signaling` (with `none` if asked for), `group` and `ordering`.
std::vector<OptionSpec> signal_options(bool with_none);

/// Whether a put to `rank` and a signal right behind it are one request, core.put_signal(), as with
/// NVSHMEM's put_signal: where a NIC sends both and `ordering` is a fence. A proxy then has put,
/// fence and signal in its ring with nothing of another core between them.
bool is_one_request(devices::Core& core, std::uint32_t rank, Ordering ordering);

/// Earlier puts of this core are visible before its later signals, if a fence is what it takes.
emu::Task order_signals(devices::Core& core, Ordering ordering);

/// A word of 8 bytes at `to` of `rank` that tells of this core's earlier puts to it. `fenced`: the
/// fabric keeps it behind them though no fence() was issued, as a NIC does for a request with a
/// fence flag; where cores store by themselves the core waits for that. Otherwise a plain store.
emu::Task signal(devices::Core& core, std::uint32_t rank, fabric::Address to, std::uint64_t value,
                 bool fenced);

}  // namespace orrery::moe
