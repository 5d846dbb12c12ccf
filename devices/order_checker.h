// The happens-before checker (design section 6, --check): replays what all cores did to memory and
// reports accesses that this run's timing alone put in order.
//
// What orders: a core's program; core barriers; a kernel after the one before it on its device; a
// wait, after what satisfied it and all that happened before that was issued; an accept, after the
// puts whose bytes this core or an earlier one had looked at. A put is *issued* before those, which
// says nothing about its bytes. These are known to be visible
//   - block by block: to whoever looked at bytes of the block (a wait, a probe), and after that;
//   - by acknowledgement: after quiet() or a fence that drains, where the fabric acknowledges what
//     is visible; elsewhere to whoever saw a put that the core issued to the same device after
//     that. After a get, what it brought; with a put's signal, the put;
//   - by order: to whoever saw a later put of the same ordered channel, if the issue of the first
//     happened before that of the second. Where only first fragments are ordered it must have seen
//     bytes of that.
// A put's source is read until its core knows that it has left.
//
// The checker sees accesses one by one, in any order in which causes come first: by time, then
// device, then as logged. It knows nothing of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/check_log.h"
#include "devices/finding_list.h"
#include "devices/put_orders.h"
#include "devices/shadow_memory.h"
#include "devices/vector_clock.h"

namespace orrery::devices {

class OrderChecker {
 public:
  struct Rules {
    std::uint32_t devices = 0;
    std::uint32_t cores = 0;  // of each
    std::uint32_t atomic_block_bytes = 64;
    bool first_fragment = false;              // else whole puts are ordered, where any are
    bool posted_first_fragment = false;       // the same of what NICs send
    bool acknowledged_visible = true;         // else an acknowledgement proves reception only
    bool posted_acknowledged_visible = true;  // the same of what NICs send
    bool signals_alone = false;               // order is of signals and atomics, after all others
    bool posted_signals_alone = false;        // the same of what NICs send
    std::vector<std::uint32_t> domains = {};  // scale-up domain of each device; empty: one
  };
  static constexpr std::uint32_t kMostDevices = 32;

  explicit OrderChecker(const Rules& rules);

  /// `record` of device `rank`, whose names are `names`.
  void take(std::uint32_t rank, const CheckRecord& record, const std::vector<std::string>& names);
  /// What was found so far, in the order in which it was found.
  const std::vector<Finding>& findings() const { return findings_.findings(); }

 private:
  struct Get {
    std::uint32_t index;  // of its put
    std::uint32_t rank;   // that it reads from
    fabric::Address from;
    fabric::Address to;
    std::uint64_t bytes;
  };
  struct Core {
    Knowledge now;
    std::uint32_t place = 0;
    std::uint32_t iteration = 0;
    std::uint32_t kernel = 0;  // its name
    std::uint32_t put = 0;     // the latest
    std::vector<Get> gets;     // of the latest verb that had any
    bool got = false;          // they are done
  };
  struct Device {
    ShadowMemory memory;
    std::uint32_t kernel_cores = 0;
    std::uint32_t ended = 0;
    std::vector<Knowledge*> at_barrier;
  };
  struct CoreWrite {
    Access access;
    Knowledge before;  // empty for writes too large for a flag
    bool has_before = false;
    bool discard = false;
    bool fetch_add = false;
  };
  struct Range {
    fabric::Address begin;
    fabric::Address end;
  };
  // Who accesses: a core now, or a put (or a get) that a core issued.
  struct Actor {
    const Knowledge& knowledge;
    const Access& access;
    const Put* put = nullptr;
  };

  Core& core(std::uint32_t rank, std::uint32_t index) {
    return cores_[std::size_t{rank} * rules_.cores + index];
  }
  Access access_of(const Core& core, const CheckRecord& record) const;
  void meet(std::uint32_t rank);
  void start_kernel(std::uint32_t rank, const CheckRecord& record,
                    const std::vector<std::string>& names);

  void issue(Core& core, std::uint32_t rank, const CheckRecord& record);
  void add_piece(Core& core, std::uint32_t rank, const CheckRecord& record);
  void get(Core& core, std::uint32_t rank, const CheckRecord& record);
  static std::uint32_t get_from(const Core& core, std::uint32_t rank, fabric::Address from);
  static std::uint32_t get_to(const Core& core, fabric::Address to);
  void serve(std::uint32_t rank, const CheckRecord& record);
  void visible(std::uint32_t rank, const CheckRecord& record);
  void accept(Core& core, std::uint32_t rank, const CheckRecord& record);
  void wait(Core& core, std::uint32_t rank, const CheckRecord& record);
  void probe(Core& core, std::uint32_t rank, const CheckRecord& record);
  void write(Core& core, std::uint32_t rank, const CheckRecord& record, bool discard);
  void fetch_add(Core& core, std::uint32_t rank, const CheckRecord& record);
  void move(Core& core, std::uint32_t rank, const CheckRecord& record);

  // Calls each(put) for the puts that wrote a cell.
  template <typename Each>
  void for_each_put(const Writer& writer, Each&& each);
  void check_read(std::uint32_t rank, Range range, const Actor& actor, bool all_written);
  void check_overwrite(std::uint32_t rank, Range range, const Actor& actor, bool atomic);
  void check_reads(std::uint32_t rank, Range range, const ShadowMemory::Cell& cell,
                   const Actor& actor, bool atomic);
  bool is_before(const Put& put, Range range, const Actor& actor) const;
  bool has_left(const Put& put, const Knowledge& knowledge) const;
  void report(FindingKind kind, std::uint32_t rank, Range range, const Access& second,
              const Access* first) {
    findings_.add(kind, rank, range.begin, range.end, second, first);
  }

  const Rules rules_;
  std::vector<Core> cores_;
  std::vector<Device> devices_;
  PutOrders puts_;
  std::vector<CoreWrite> writes_;
  std::vector<std::vector<std::uint32_t>>
      atomics_;  // puts that added to a counter since it was set
  FindingList findings_;
};

}  // namespace orrery::devices
