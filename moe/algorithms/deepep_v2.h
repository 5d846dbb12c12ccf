// DeepEP V2's ("elastic") dispatch and combine: fixed buffers for all that could come instead of
// queues, a barrier of all devices before and after, and a kernel of its own that copies what came
// to the experts, or adds up what came back.
//
// Sources: deepseek-ai/DeepEP, deep_ep/include/deep_ep/impls/{dispatch,dispatch_copy_epilogue,
// combine,combine_reduce_epilogue,hybrid_dispatch,hybrid_combine}.cuh and
// tests/elastic/test_ep.py, as read for this project. Warps are not modelled: what is a warp's role
// there is a core's here, of `sms` cores; those that notify are further ones. Its epilogues run on
// all cores, and so here. Outputs of experts are weighted where they are first added (there by
// whoever computes them).
//
// deepep_v2.cc has what all forms share and the direct form, deepep_v2_hybrid.cc the one that
// crosses nodes by rails, deepep_v2_counts.h the counts, deepep_v2_buffers.h the memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "moe/algorithms/deepep_v2_buffers.h"
#include "moe/algorithms/deepep_v2_counts.h"
#include "moe/algorithms/rank_barrier.h"
#include "moe/dedup_layer.h"

namespace orrery::moe {

class DeepEpV2 final : public DedupLayer, private DeepEpV2Buffers {
 public:
  DeepEpV2(const Problem& problem, const Options& options);

  std::vector<std::string> operations() const override;
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override;
  Contract contract() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::vector<std::string> notes() const override;
  void set_up(devices::DeviceProcess& device) override;
  emu::Task program(devices::Core& core, std::uint32_t operation, std::uint32_t iteration) override;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

 private:
  /// Who does what: cores [0, sms) move rows, the next ones count. With several groups half of the
  /// movers send and the others forward; a single one does first one, then the other.
  struct Roles {
    Roles(const Problem& problem, const Options& options, const NodeGroups& groups);
    std::uint32_t sms;
    std::uint32_t channels;
    std::uint32_t counters;
    std::uint32_t first_counter;

    bool sends(std::uint32_t core) const { return core < channels; }
    bool forwards(std::uint32_t core) const {
      return sms == channels ? core < channels : core >= channels && core < 2 * channels;
    }
  };
  DeepEpV2(const Problem& problem, const Options& options, const NodeGroups& groups,
           const Roles& roles);

  // Operations with deferred epilogues, each of which is one of its own.
  enum Deferred : std::uint32_t { kSend, kCopy, kCompute, kReturn, kReduce };
  /// Of the layer. A deferred epilogue belongs to what it ends.
  std::uint32_t of_layer(std::uint32_t operation) const {
    constexpr std::uint32_t kOf[] = {kDispatch, kDispatch, kExperts, kCombine, kCombine};
    return deferred_ ? kOf[operation] : operation;
  }
  bool is_epilogue(std::uint32_t operation) const {
    return deferred_ && (operation == kCopy || operation == kReduce);
  }
  bool lacks_epilogue(std::uint32_t operation) const {
    return deferred_ && (operation == kSend || operation == kReturn);
  }

  emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override;
  emu::Task combine(devices::Core& core, std::uint32_t iteration) override;

  std::uint32_t next_call(devices::Core& core) const;
  emu::Task count(devices::Core& core, std::uint32_t iteration);
  std::uint32_t group(const devices::Core& core) const { return groups_.group_of(core.rank()); }
  std::uint32_t member(const devices::Core& core) const { return groups_.member_of(core.rank()); }
  float weight_of(devices::Core& core, std::uint32_t token, std::uint32_t k) const {
    return core.load<float>(weights() + (std::uint64_t{token} * problem_.top_k() + k) * 4);
  }

  /// Puts that have not left, in the order of their issue, and the row that is given up with one:
  /// kNoRow with all but the last put of a row.
  using Leaving = std::deque<std::pair<devices::PutHandle, fabric::Address>>;
  static constexpr fabric::Address kNoRow = ~fabric::Address{0};
  void give_up_left(devices::Core& core, Leaving& leaving) const;
  emu::Task give_up(devices::Core& core, Leaving& leaving) const;

  // --- Direct (deepep_v2.cc) ---
  emu::Task load_token(devices::Core& core, std::uint32_t token, bool through_nic);
  emu::Task send_direct(devices::Core& core, std::uint32_t iteration);
  emu::Task return_direct(devices::Core& core);
  emu::Task expand_all(devices::Core& core);
  emu::Task reduce_all(devices::Core& core, std::uint32_t iteration);
  /// What goes back for one message: to `peer`, in its place there for a token of `node`. Returns
  /// when it is issued.
  struct Returning {
    devices::PutHandle stage[2];
    std::uint32_t turn = 0;
  };
  emu::Task return_one(devices::Core& core, fabric::Address taken, std::uint32_t peer,
                       std::uint32_t node, Returning& returning);

  // --- By rails (deepep_v2_hybrid.cc) ---
  /// What a core has sent to each peer, and has told of.
  struct Progress {
    std::uint32_t sent = 0;
    std::uint32_t told = 0;
  };
  emu::Task send_to_rails(devices::Core& core, std::uint32_t iteration);
  emu::Task tell_rails(devices::Core& core, bool last, std::vector<Progress>& progress);
  emu::Task before_words(devices::Core& core);
  emu::Task forward(devices::Core& core);
  emu::Task forward_one(devices::Core& core, std::uint32_t node, std::uint32_t index,
                        std::uint32_t number, std::vector<std::uint32_t>& turns, Leaving& leaving);
  emu::Task return_to_forwarders(devices::Core& core);
  emu::Task tell_forwarders(devices::Core& core, std::vector<Progress>& progress);
  emu::Task reduce_and_return(devices::Core& core);
  emu::Task wait_for_parts(devices::Core& core, std::uint32_t channel, std::span<const Hop> hops);

  const NodeGroups groups_;
  const Roles roles_;
  const bool fenced_;
  const bool host_sync_;
  const bool deferred_;
  const bool reduces_twice_;
  const std::string sabotage_;
  const RankBarrier barrier_;
  const DeepEpV2Counts counts_;
};

}  // namespace orrery::moe
