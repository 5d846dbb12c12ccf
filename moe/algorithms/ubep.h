// UBEP: token sending and counting by groups of cores of their own, soft flags between cores
// instead of SyncAll, rows that carry their own flags, and copy-out of what has arrived (arXiv
// 2607.06202).
//
//   dispatch   ubep_counting.cc     count tokens   -> statuses to all devices
//              ubep_token_send.cc   mapper, send   -> rows, each of which says that it is there
//              ubep_counting.cc     cumsum         -> soft flags to all cores of the device
//              ubep_copy_out.cc     copy out       -> rows in the order of the experts
//   combine    ubep_combine.cc      send outputs, reduce
//
// Roles, options and registration are in ubep.cc.
//
// Sources: mirror-cann/ops-transformer, mc2/moe_distribute_dispatch_v2 (full mesh) and the A5
// combine, as read for this project; what only the paper names (DC, SP, the schedules, the mapper,
// the count cores) is in the files beside this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe/algorithms/ubep_count_cores.h"
#include "moe/algorithms/ubep_layout.h"
#include "moe/algorithms/ubep_schedule.h"
#include "moe/algorithms/ubep_wire.h"
#include "moe/moe_layer.h"

namespace orrery::moe::ubep {

/// Vector passes of a prefix sum over a vector: shift and add, log2 of 16 lanes.
inline constexpr int kScanPasses = 4;

/// The rounds that its parts pass each other number the calls of an operation, and are never 0;
/// windows have a half for odd ones and one for even ones.
class Ubep final : public MoeLayer {
 public:
  Ubep(const Problem& problem, const Options& options);

  Contract contract() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  void set_up(devices::DeviceProcess& device) override;

 private:
  using Core = devices::Core;
  using Address = fabric::Address;

  emu::Task dispatch(Core& core, std::uint32_t iteration) override;
  emu::Task combine(Core& core, std::uint32_t iteration) override;
  // Of this core's next call of the operation, whose number it takes.
  std::uint32_t begin_round(Core& core, Operation operation) const;

  // --- Roles: the first cores send, the last ones count; a core alone does both ---
  std::uint32_t counting(const Options& options) const;
  std::uint32_t senders() const { return std::max(problem_.costs.cores - count_cores_, 1u); }
  bool sends_tokens(const Core& core) const { return core.index() < senders(); }
  bool counts(const Core& core) const { return core.index() + count_cores_ >= core.count(); }
  std::uint32_t counter(const Core& core) const {
    return core.index() + count_cores_ - core.count();
  }
  std::uint32_t core_of(const Core& core, std::uint32_t counter) const {
    return core.count() - count_cores_ + counter;
  }

  // --- Lists: the rows of one source for one local expert ---
  // A device without experts has one list per source all the same, of nothing: everybody hears from
  // everybody in every call, which is what keeps calls from being more than one apart.
  std::uint32_t lists_of(std::uint32_t device) const {
    return std::max(local_experts(device), 1u) * problem_.devices;
  }
  std::uint32_t list(std::uint32_t local, std::uint32_t source) const {
    return local * problem_.devices + source;
  }

  // --- Token send ---
  emu::Task send_tokens(Core& core, std::uint32_t iteration, std::uint32_t round);
  emu::Task plan(Core& core, std::span<const std::int32_t> ids, std::uint32_t round,
                 std::vector<Send>& mine);
  emu::Task share_histogram(Core& core, std::uint32_t entries, std::uint32_t round,
                            std::vector<std::uint32_t>& counts);
  emu::Task put_flag(Core& core, std::uint32_t rank, Address flag, std::uint32_t round);
  emu::Time encode_time() const;
  emu::Time mapper_time(std::uint32_t entries) const;

  // --- Token count and cumsum ---
  emu::Task count_tokens(Core& core, std::uint32_t iteration, std::uint32_t round);
  emu::Task sum_counts(Core& core, std::uint32_t round);

  // --- Copy out ---
  struct Cursor {
    std::uint32_t list;
    std::uint32_t rows;  // of the list
    std::uint64_t row;   // where its next one goes
    std::uint32_t n = 0;
    std::uint32_t batch = 0;  // rows to copy next
  };
  emu::Task copy_out(Core& core, std::uint32_t round);
  std::vector<Cursor> my_lists(Core& core);
  std::uint32_t batch_rows(const Cursor& at) const;
  bool batch_arrived(Core& core, const Cursor& at, std::uint32_t half, std::uint32_t round) const;
  emu::Task copy_batch(Core& core, Cursor& at, std::uint32_t round);

  // --- Combine ---
  emu::Task send_outputs(Core& core, std::uint32_t round);
  emu::Task reduce(Core& core, std::uint32_t iteration, std::uint32_t round);

  const Schedule schedule_;
  const bool sort_;
  const std::string sabotage_;
  const std::uint32_t first_round_;
  const std::uint32_t list_rows_;
  const Wire wire_;  // of dispatch
  const Wire back_;  // of combine
  const std::uint32_t count_cores_;
  const UbepLayout at_;
};

}  // namespace orrery::moe::ubep
