// Triton-distributed's low-latency all-to-all in its two versions: per peer one slab, or per row
// one put; behind them each peer is told by a signal that holds the number of the call.
//
// Source: ByteDance-Seed/Triton-distributed, python/triton_dist/kernels/nvidia/
// low_latency_all_to_all.py and low_latency_all_to_all_v2.py, as read for this project; when
// signals are issued as in arXiv 2605.00686 (signals.h). What differs:
//   - the source takes tokens that are permuted already and leaves slabs; here kernels before and
//     behind the exchange permute and sort, and their time counts;
//   - a row's tag travels behind it, for the check; its scale does not, in v1;
//   - on the way back v1 puts rows alone, since their origin knows the splits;
//   - each device begins with another peer.
//
//   triton_a2a.cc         what both share: calls, and the puts, fences and signals of each peer
//   triton_a2a_slabs.cc   v1
//   triton_a2a_tokens.cc  v2
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "moe/algorithms/signals.h"
#include "moe/algorithms/triton_a2a_layout.h"
#include "moe/message_layer.h"

namespace orrery::moe::triton {

class TritonA2a final : public MessageLayer {
 public:
  TritonA2a(const Problem& problem, const Options& options);

  Contract contract() const override;
  void set_up(devices::DeviceProcess& device) override;

 private:
  using Core = devices::Core;
  /// What keeps a signal behind what it tells of, beyond its own core's fence.
  enum class Release : std::uint8_t {
    kFence,       // fences and acknowledgements
    kQueuePair,   // v2: between NICs, the order of one queue pair to each peer
    kTrustOrder,  // as the source has it: v1's signal rides on the scales, v2's cores only meet
  };
  struct Call {
    std::uint32_t number;
    std::uint32_t set;
    bool back;  // a combine
  };
  /// Puts of this call, and the rows of [address, stride) that they read.
  struct Sent {
    devices::PutHandle handle;
    std::vector<fabric::Address> rows;
  };

  Call next_call(Core& core, bool back) const;
  emu::Task dispatch(Core& core, std::uint32_t iteration) override;
  emu::Task combine(Core& core, std::uint32_t iteration) override;

  // The peers that a core serves, by groups that share a fence.
  std::vector<std::vector<std::uint32_t>> groups_of(const Core& core) const;
  emu::Task exchange(Core& core, Call call);
  emu::Task put_parcel(Core& core, Call call, std::uint32_t peer, std::vector<Sent>& sent);
  emu::Task tell_all(Core& core, Call call, const std::vector<std::uint32_t>& peers);
  emu::Task wait_signals(Core& core, Call call);
  emu::Task count_rows(Core& core, std::uint32_t iteration);
  emu::Task release(Core& core);

  // --- v1 ---
  // A row's place in a slab, and among the rows of the experts.
  struct Place {
    std::uint32_t source;
    std::uint64_t in_slab;
    std::uint64_t row;
  };
  std::vector<Place> places(Core& core, std::uint32_t set) const;
  std::uint32_t slab_rows(Core& core, Call call, std::uint32_t peer) const;
  emu::Task permute(Core& core, std::uint32_t iteration);
  emu::Task put_slab(Core& core, Call call, std::uint32_t peer, std::vector<Sent>& sent);
  emu::Task put_scales(Core& core, Call call, std::uint32_t peer, std::uint32_t rows,
                       std::vector<Sent>& sent);
  emu::Task sort(Core& core, Call call);
  emu::Task unsort(Core& core, Call call);

  // --- v2 ---
  emu::Task send_tokens(Core& core, std::uint32_t iteration, Call call);
  emu::Task put_counts(Core& core, Call call, std::uint32_t peer, std::vector<Sent>& sent);
  emu::Task receive_tokens(Core& core, Call call);
  emu::Task send_outputs(Core& core, Call call);

  emu::Task reduce(Core& core, std::uint32_t iteration, Call call);

  // To this peer all cores' puts take one queue pair, if its order is what counts.
  void use_queue_to(Core& core, std::uint32_t peer) const {
    if (release_ == Release::kQueuePair) core.use_queue(peer);
  }
  bool drops(const Core& core, std::uint32_t peer) const {
    return sabotage_ == "drop-signal" && core.rank() == 0 && peer == core.ranks() - 1;
  }
  bool rides(Call call) const {
    return !by_token_ && release_ == Release::kTrustOrder && !call.back &&
           precision_ == Precision::kInt8;
  }

  const bool by_token_;
  const Release release_;
  const Signaling signaling_;
  const Ordering ordering_;
  const GroupSize group_;
  const std::string sabotage_;
  const TritonLayout at_;
};

}  // namespace orrery::moe::triton
