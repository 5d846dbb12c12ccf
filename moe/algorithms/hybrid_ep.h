// Hybrid-EP's dispatch and combine: all addresses are computed before any payload moves, tokens
// travel in chunks, and a chunk that has come over the NIC is told of by an atomic whose count only
// grows.
//
// Sources: deepseek-ai/DeepEP, branch hybrid-ep, csrc/hybrid_ep/backend/hybrid_ep_backend.cuh and
// docs/Hybrid-EP_Implementation.md, as read for this project. Warps are not modelled: a block there
// is two cores here, one with the role of its N2N (RDMA) warp, one with those of its G2S and S2G
// warps; in combine one reduces for other nodes and sends, the other reduces the own tokens.
// Multicast stores are stores to one after the other. The rows of the own node are rounded to bf16
// when they are added up, as those of other nodes are. Outputs of experts are weighted where they
// are first added, as there by whoever permutes back. Its `non_blocking` mode, which drops tokens
// that do not fit, is left out: buffers are for all that could come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "moe/algorithms/hybrid_ep_maps.h"
#include "moe/algorithms/rank_barrier.h"
#include "moe/dedup_layer.h"

namespace orrery::moe {

class HybridEp final : public DedupLayer {
 public:
  HybridEp(const Problem& problem, const Options& options);

  Contract contract() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::vector<std::string> notes() const override;
  void set_up(devices::DeviceProcess& device) override;

 private:
  HybridEp(const Problem& problem, const Options& options, const NodeGroups& groups);

  emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override;
  emu::Task combine(devices::Core& core, std::uint32_t iteration) override;

  /// Calls of either operation, from 1.
  enum Operation : std::uint32_t { kOut, kBack, kOperations };
  std::uint32_t next_call(devices::Core& core, Operation operation) const;
  std::uint32_t group(const devices::Core& core) const { return groups_.group_of(core.rank()); }
  std::uint32_t member(const devices::Core& core) const { return groups_.member_of(core.rank()); }
  std::uint32_t rail(const devices::Core& core, std::uint32_t node) const {
    return groups_.device(node, member(core));
  }
  std::uint32_t chunks(std::uint32_t tokens) const { return (tokens + chunk_ - 1) / chunk_; }
  std::uint32_t end_of(std::uint32_t chunk, std::uint32_t tokens) const {
    return std::min((chunk + 1) * chunk_, tokens);
  }

  // --- Dispatch ---
  emu::Task stage_tokens(devices::Core& core, std::uint32_t iteration);
  emu::Task send_to_nodes(devices::Core& core);
  emu::Task spread(devices::Core& core, std::uint32_t call);
  emu::Task spread_chunk(devices::Core& core, std::uint32_t node, std::uint32_t chunk);
  emu::Task expand_all(devices::Core& core);

  // --- Combine ---
  emu::Task sum_own(devices::Core& core);
  emu::Task reduce_for_nodes(devices::Core& core);
  emu::Task reduce_own(devices::Core& core, std::uint32_t iteration, std::uint32_t call);
  emu::Task reduce_members(devices::Core& core, std::uint32_t node, std::uint32_t token,
                           fabric::Address to);

  // --- A chunk that has come ---
  emu::Task tell(devices::Core& core, Operation operation, std::uint32_t node, std::uint32_t chunk);
  emu::Task wait(devices::Core& core, Operation operation, std::uint32_t node, std::uint32_t chunk,
                 std::uint32_t call);

  // --- Device memory ---
  fabric::Address row_at(fabric::Address region, std::uint64_t row) const {
    return region + row * message_stride();
  }
  fabric::Address staged(std::uint32_t token) const { return row_at(staged_, token); }
  /// Messages of other nodes, by (node, token).
  fabric::Address passing(std::uint32_t node, std::uint32_t token) const {
    return row_at(passing_, std::uint64_t{node} * problem_.token_bound + token);
  }
  fabric::Address received(std::uint32_t row) const { return row_at(received_, row); }
  fabric::Address taken(std::uint32_t row) const { return taken_ + row * taken_bytes(); }
  /// The sum of a received row's outputs.
  fabric::Address sum_of(std::uint32_t row) const { return row_at(sums_, row); }
  /// Rows that a core fetched from the members of its node.
  fabric::Address fetched(std::uint32_t core, std::uint32_t member) const {
    return row_at(fetched_, std::uint64_t{core} * groups_.members() + member);
  }
  /// Sums on their way to another node, by (node, token); those of other nodes when they are here;
  /// that of the own node.
  fabric::Address leaving(std::uint32_t node, std::uint32_t token) const {
    return row_at(leaving_, std::uint64_t{node} * problem_.token_bound + token);
  }
  fabric::Address returned(std::uint32_t node, std::uint32_t token) const {
    return row_at(returned_, std::uint64_t{node} * problem_.token_bound + token);
  }
  fabric::Address flag(Operation operation, std::uint32_t node, std::uint32_t chunk) const {
    return flags_ +
           ((std::uint64_t{operation} * groups_.groups() + node) * chunks(problem_.token_bound) +
            chunk) *
               8;
  }
  fabric::Address calls(Operation operation, std::uint32_t core) const {
    return calls_ + (std::uint64_t{operation} * problem_.costs.cores + core) * 4;
  }

  const NodeGroups groups_;
  const std::uint32_t chunk_;
  const std::uint32_t blocks_;
  const bool fenced_;
  const std::string sabotage_;
  const HybridEpMaps maps_;
  const RankBarrier barrier_;
  fabric::Address staged_;
  fabric::Address passing_;
  fabric::Address received_;
  fabric::Address taken_;
  fabric::Address sums_;
  fabric::Address fetched_;
  fabric::Address leaving_;
  fabric::Address returned_;
  fabric::Address flags_;
  fabric::Address calls_;
};

}  // namespace orrery::moe
