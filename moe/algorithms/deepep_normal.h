// DeepEP's normal ("high-throughput") dispatch and combine: rows go through ring queues with
// credits, each once per device of its experts, or, between nodes, once per node to the device with
// the same number there, which hands it on; on the way back rows are added where they meet.
//
// Source: deepseek-ai/DeepEP, csrc/kernels/legacy/intranode.cu and internode.cu, as read for this
// project. What differs:
//   - a block's warps are roles that take turns on one core (roles.h). The even core of a channel
//     sends; the odd one receives, or, with two levels, forwards, and then the even one receives in
//     dispatch and the odd one in combine. A role puts its chunks for several peers, then orders
//     and publishes them together;
//   - counts go on from call to call, so that no queue is cleared; the source clears them behind a
//     quiet and a barrier (sabotage in-flight-head: without);
//   - counts of rows go straight from each device to each, and barriers are of all devices at once;
//   - both words of a queue are added to, over NVLink as well;
//   - the received rows are copied to each expert's list, and before combine a token's rows of a
//     device are added with their weights, which the source leaves to its caller.
//
//   deepep_normal.cc           options, barriers, notify
//   deepep_normal_dispatch.cc  dispatch, its senders and receivers
//   deepep_normal_forwarder.cc its forwarders
//   deepep_normal_combine.cc   combine, and all its roles
//   ring_sender.h              the sender of both
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "moe/algorithms/deepep_normal_layout.h"
#include "moe/algorithms/ring_sender.h"
#include "moe/algorithms/roles.h"
#include "moe/dedup_layer.h"
#include "moe/share.h"

namespace orrery::moe::deepep {

/// Rows [begin, end) of a list.
struct Offsets {
  std::uint32_t begin;
  std::uint32_t end;
};
/// As it travels: -value - 1, which is never 0.
constexpr std::uint32_t encoded(std::uint32_t value) { return ~value; }

class DeepEpNormal final : public DedupLayer {
 public:
  DeepEpNormal(const Problem& problem, const Options& options);

  Contract contract() const override;
  std::vector<std::string> notes() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::uint32_t cores(std::uint32_t operation, std::uint32_t iteration) const override;
  void set_up(devices::DeviceProcess& device) override;

 private:
  using Core = devices::Core;
  using Roles = std::vector<std::unique_ptr<Role>>;
  class Receiver;
  class Forwarder;
  class SumForwarder;
  class SumReceiver;

  std::uint32_t most_watches() const;
  bool has_two_levels() const { return groups_.groups() > 1; }
  std::uint32_t node_of(std::uint32_t device) const { return groups_.group_of(device); }
  std::uint32_t member_of(std::uint32_t device) const { return groups_.member_of(device); }
  /// The channel of this core, and whether it plays the roles of the channel's even or odd core.
  std::uint32_t channel_of(const Core& core) const { return core.index() / 2; }
  bool is_even(const Core& core) const { return core.count() == 1 || core.index() % 2 == 0; }
  bool is_odd(const Core& core) const { return core.count() == 1 || core.index() % 2 == 1; }
  Share channel_tokens(std::uint32_t device, std::uint32_t iteration, std::uint32_t channel) const {
    return share(tokens(device, iteration), channels_, channel);
  }
  // The nodes of these devices, each once, ascending.
  std::vector<std::uint32_t> nodes_of(std::vector<std::uint32_t> devices) const;
  emu::Task dispatch(Core& core, std::uint32_t iteration) override;
  emu::Task combine(Core& core, std::uint32_t iteration) override;
  emu::Task rank_barrier(Core& core);
  emu::Task notify(Core& core, std::uint32_t iteration);
  void clear_queues(Core& core);
  /// Puts of this core are visible before what it then tells the same peers: on the near network,
  /// or on either.
  emu::Task order_near(Core& core) const;
  emu::Task order_far(Core& core) const;
  RingSender::Order near_order();
  RingSender::Order far_order();

  /// The device that hands rows of `source` to `self`, and takes them back.
  std::uint32_t last_hop(std::uint32_t source, std::uint32_t self) const {
    return has_two_levels() ? groups_.device(node_of(self), member_of(source)) : source;
  }
  RingSender::Fault fault() const {
    if (sabotage_ == "in-order") return RingSender::Fault::kInOrder;
    return sabotage_ == "spin-sender" ? RingSender::Fault::kSpin : RingSender::Fault::kNone;
  }
  bool drops_record(const Core& core, std::uint32_t shift) const {
    return sabotage_ == "drop-record" && core.rank() == 0 && core.index() == 0 && shift == 1;
  }

  emu::Task send_offsets(Core& core, std::uint32_t iteration);
  emu::Task stage(Core& core, std::uint32_t iteration);
  std::unique_ptr<Role> forwarder(Core& core) const;
  std::unique_ptr<Role> token_sender(Core& core, std::uint32_t iteration);
  std::unique_ptr<Role> sum_sender(Core& core);
  emu::Task hand_to_experts(Core& core);
  emu::Task add_outputs(Core& core);

  const NodeGroups groups_;
  const std::uint32_t channels_;
  const bool by_queue_pair_;
  const std::string sabotage_;
  const NormalLayout at_;
};

}  // namespace orrery::moe::deepep
