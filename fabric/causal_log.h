// What happened and what it depended on, thing by thing, for those who ask what would have been
// different (orrery run --explain). Kept only when asked for; changes no virtual time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "emu/time.h"
#include "fabric/topology.h"

namespace orrery::fabric {

/// Identifies a packet or a put over the whole run: the source device and its count there.
using CausalKey = std::uint64_t;
constexpr CausalKey causal_key(NodeId source, std::uint32_t number) {
  return (static_cast<CausalKey>(source) << 32) | number;
}

/// What an entry says; the fields that each kind uses stand beside it. `at` is always the time of
/// the event in which the entry was made.
enum class CausalKind : std::uint8_t {
  kHop,      // a packet's head asks for a link: key packet, other link, amount bytes on the wire
  kSelf,     // a packet to its own device: key packet
  kVisible,  // bytes of a packet became visible: key packet
  kKernel,   // a kernel starts: other operation, amount iteration, core number of cores
  kSpend,    // a core spends time alone: core, detail cost, amount duration
  kPut,    // a core begins to issue: core, key put, other destination, amount bytes | channel << 32
  kLeave,  // a packet leaves the core's pipe: key packet, other number of the put, amount bytes,
           // detail 1: a signal
  kAckLeave,  // an acknowledgement that is a packet begins its way: key packet, amount key of a
              // packet of the put
  kAck,   // a put's acknowledgement is back: core, key put, amount key of its packet if it is one
  kSlot,  // a slot that the following kWait waited for: other slot, key packet that wrote it
  kWait,  // a wait for slots ended: core, other slots, amount time of one sweep, detail 1: for any
  kAckWait,  // a core waited for one put's acknowledgement: core, key put
  kArrive,   // a core is where all cores meet: core, detail what for
  kCopy,     // a chunk of a local copy begins: core, other bytes, amount traffic, detail 1: first
  kSourceWait,  // a put's source may be reused: core, key put
  kQuiet,       // all puts of a core are acknowledged: core
  // a core has issued a get: core, key packet that asks, detail 1 in the time of the one before
  kGet,
  kReply,    // a packet of the answer leaves: key packet, amount key of the packet that asked
  kGetDone,  // the answer is there: core, key one of its packets, detail 1: and more are awaited
  kEnd,      // a core's program ended: core
};

struct CausalEntry {
  emu::Time at = 0;
  CausalKey key = 0;
  std::uint64_t amount = 0;
  std::uint32_t other = 0;
  std::uint16_t core = 0;
  CausalKind kind = CausalKind::kHop;
  std::uint8_t detail = 0;
};
static_assert(sizeof(CausalEntry) == 32 && std::is_trivially_copyable_v<CausalEntry>);

/// The entries of this process's nodes, each node's in order of time. A node's list belongs to its
/// logical process, so that those of several nodes may grow at once.
class CausalLog {
 public:
  /// With more than `limit` entries all of it is worthless: it stops growing.
  CausalLog(std::uint32_t nodes, std::uint64_t limit) : limit_(limit), nodes_(nodes) {}

  void add(NodeId node, const CausalEntry& entry) {
    if (count_.fetch_add(1, std::memory_order_relaxed) < limit_) nodes_[node].push_back(entry);
  }
  /// Entries asked for, beyond the limit too.
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_; }
  const std::vector<CausalEntry>& of(NodeId node) const { return nodes_[node]; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(nodes_.size()); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> count_{0};
  std::vector<std::vector<CausalEntry>> nodes_;
};

}  // namespace orrery::fabric
