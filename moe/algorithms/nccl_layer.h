// Dispatch and combine as training frameworks do it on collectives: exchange counts, let the host
// read them, then one variable all-to-all; every step is a kernel of its own.
//
// Source: NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
// (MoEAlltoAllTokenDispatcher), as read for this project; its collectives as bulk puts with a fence
// and a signal. Weights are applied where the source's unpermute applies them, at the origin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "moe/algorithms/count_gather.h"
#include "moe/algorithms/nccl_buffers.h"
#include "moe/algorithms/nccl_splits.h"
#include "moe/message_layer.h"

namespace orrery::moe {

class NcclLayer : public MessageLayer, protected NcclBuffers {
 public:
  // Fences do it all; a signal is one word.
  Contract contract() const override { return {Contract::Order::kNone, 4}; }
  /// With the weights exchanged, those at the experts must be those of their rows.
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

 protected:
  using Core = devices::Core;

  NcclLayer(const Problem& problem, const Options& options, Precision precision, Sizes sizes);
  /// `channels`, `probs` (by default `probs`), `first_call` and `sabotage`.
  static std::vector<OptionSpec> nccl_options(const char* probs);

  /// What each device knows of everybody's rows before any of them moves: by default its host has
  /// read everybody's counts.
  virtual emu::Task plan(Core& core, std::uint32_t iteration);
  /// Writes this device's rows to `permuted`, `permuted_probs` and their places.
  emu::Task permute(Core& core, std::uint32_t iteration);
  /// In the kernel of permute().
  virtual emu::Task pad(Core& core, std::uint32_t iteration);
  /// From `by_source` to the experts' rows, and back from their outputs to `unsorted`.
  virtual emu::Task sort_chunks(Core& core, std::uint32_t iteration);
  virtual emu::Task unsort_chunks(Core& core);
  /// In the kernel of the last sums.
  virtual void drop_padding(Core&, std::uint32_t) {}

  std::uint32_t call(std::uint32_t iteration) const { return first_call_ + iteration; }
  NcclSplits splits(Core& core) const { return counts_.splits(core); }
  void take_prob(Core& core, std::uint32_t iteration, std::uint64_t from, std::uint64_t row) const {
    if (!probs_) return;
    core.write(expert_probs(row), core.load<float>(probs_by_source(iteration)(from)));
  }

  const CountGather counts_;

 private:
  struct Buffers {
    Rows from;
    Rows to;
    std::uint32_t bytes;  // of a row
    bool flat;            // rows without gaps, in one piece
  };

  // By default every core has a channel to some device.
  static std::uint32_t channels_of(std::uint64_t option, const Problem& problem) {
    return option > 0 ? static_cast<std::uint32_t>(option)
                      : std::max(1u, problem.costs.cores / problem.devices);
  }
  NcclSplits::Places blocks(Core& core) const;
  emu::Task dispatch(Core& core, std::uint32_t iteration) override;
  emu::Task combine(Core& core, std::uint32_t iteration) override;
  emu::Task all_to_all(Core& core, Exchange exchange, Buffers rows, std::uint32_t iteration);
  emu::Task wait_signals(Core& core, Exchange exchange, std::uint32_t iteration);
  emu::Task unpermute(Core& core, std::uint32_t iteration);

  const bool probs_;
  const std::uint32_t first_call_;
  const std::string sabotage_;
};

}  // namespace orrery::moe
