// NotifyDispatch of the sgl prefill kernels: how many rows every device has for every expert in
// every round, where they will lie in its window, and where they belong at the expert.
//
//   co_await notify_.run(core, call, ids(), tokens, expert_rows(0));   // all cores
//   const auto list = notify_.received(core, round, local, source);    // rows to pull
#pragma once

#include <cstdint>

#include "devices/core.h"
#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

class SglNotify {
 public:
  /// Devices dispatch `round_tokens` tokens at a time, at least 1.
  SglNotify(const Problem& problem, std::uint32_t round_tokens, Layout& layout);

  /// The whole of it, ending in a core barrier. `call` counts from 1; `ids`: int32 [tokens][top_k];
  /// `expert_rows`: uint32 by local expert, the rows that each gets in all. No device ends a call
  /// before every device has begun it.
  emu::Task run(devices::Core& core, std::uint64_t call, fabric::Address ids, std::uint32_t tokens,
                fabric::Address expert_rows) const;

  /// Rounds of a call at most.
  std::uint32_t max_rounds() const { return max_rounds_; }

  // --- What every core knows afterwards ---
  /// Rounds of this call: as many as the device with the most tokens needs, at least one.
  std::uint32_t rounds(devices::Core& core) const { return core.load<std::uint32_t>(rounds_); }
  /// Where in this device's window its `entry` (token * top_k + k, to `expert`) belongs.
  std::uint32_t window_row(devices::Core& core, std::uint32_t entry, std::uint32_t expert) const;
  /// Rows of one source for one local expert in one round.
  struct List {
    std::uint32_t count;
    std::uint32_t window_row;  // of the first, at the source
    std::uint64_t row;         // of the first, among all of this device
  };
  List received(devices::Core& core, std::uint32_t round, std::uint32_t local,
                std::uint32_t source) const;

 private:
  /// What a source tells the owner of an expert about one round.
  struct Triple {
    std::uint32_t count = 0;   // rows for the expert
    std::uint32_t offset = 0;  // where they begin in the source's window
    std::uint32_t tokens = 0;  // of the source in that round
  };
  std::uint64_t triples() const {
    return std::uint64_t{max_rounds_} * problem_.devices * max_local();
  }
  std::uint32_t max_local() const { return problem_.placement.max_local(); }
  // Triples of one peer lie together: [peer][round][local expert].
  std::uint32_t peer_bytes() const {
    return max_rounds_ * max_local() * static_cast<std::uint32_t>(sizeof(Triple));
  }
  fabric::Address triple(fabric::Address region, std::uint32_t peer, std::uint32_t round,
                         std::uint32_t local) const {
    return region + std::uint64_t{peer} * peer_bytes() +
           (std::uint64_t{round} * max_local() + local) * sizeof(Triple);
  }
  fabric::Address count(std::uint32_t round, std::uint32_t expert) const {
    return counts_ + (std::uint64_t{round} * problem_.placement.experts() + expert) * 4;
  }
  fabric::Address place(std::uint32_t entry) const { return places_ + std::uint64_t{entry} * 4; }
  fabric::Address expert_base(std::uint32_t local) const {
    return expert_base_ + std::uint64_t{local} * 4;
  }
  fabric::Address source_in_expert(std::uint32_t local, std::uint32_t source) const {
    return source_in_expert_ + (std::uint64_t{local} * problem_.devices + source) * 4;
  }
  fabric::Address round_in_source(std::uint32_t round, std::uint32_t local,
                                  std::uint32_t source) const {
    const std::uint64_t list = std::uint64_t{local} * problem_.devices + source;
    return round_in_source_ + (list * max_rounds_ + round) * 4;
  }

  emu::Task count_sends(devices::Core& core, fabric::Address ids, std::uint32_t tokens) const;
  emu::Task assemble(devices::Core& core, std::uint32_t tokens) const;
  emu::Task exchange(devices::Core& core, std::uint64_t call) const;
  emu::Task build_vectors(devices::Core& core, fabric::Address expert_rows) const;
  void build_vector(devices::Core& core, std::uint32_t vector, fabric::Address expert_rows) const;

  const Problem& problem_;
  const std::uint32_t round_tokens_;
  const std::uint32_t max_rounds_;
  fabric::Address counts_;            // uint32 [round][expert]: this device's rows
  fabric::Address places_;            // uint32 [entry]: before it in its round, for its expert
  fabric::Address assembled_;         // triples to all peers
  fabric::Address shared_;            // the same, for peers to read
  fabric::Address received_;          // triples from all peers
  fabric::Address notified_;          // uint64 [source]: flags
  fabric::Address rounds_;            // uint32
  fabric::Address expert_base_;       // uint32 [local]: rows of the experts before
  fabric::Address source_in_expert_;  // uint32 [local][source]: rows of the sources before
  fabric::Address round_in_source_;   // uint32 [local][source][round]: rows of the rounds before
};

}  // namespace orrery::moe
