// MoE-Hub: rows go to experts by name as soon as they are routed, the hub of the receiving device
// gives them their place, and blocks of rows are multiplied as they are complete. Nobody counts
// beforehand, nobody waits for addresses, nothing is permuted.
//
// Source: arXiv 2605.05888, of which the parts are known by name alone (address allocation at the
// receiver, a packet manager, a data availability manager); how they work together is our own
// formulation. `hub` leaves parts out, as its ablation does:
//   allocation     what a core stores at once is a packet; experts begin when all rows have come,
//                  in kernels of their own, and so does the way back
//   packets        the packet manager makes large packets of a row
//   availability   blocks are multiplied and returned as they are complete, in one kernel
//   all
// On the way back the name is (token, k) at the row's device, whose hub knows its place without a
// table. Rows of a token are added there in ascending k.
//
// moe_hub.cc has the way there and back, moe_hub_experts.cc what happens to blocks in between,
// moe_hub_late.cc who is waited for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "moe/algorithms/moe_hub_buffers.h"
#include "moe/fused_layer.h"

namespace orrery::moe {

class MoeHub final : public FusedLayer {
 public:
  MoeHub(const Problem& problem, const Options& options);

  bool uses_hub() const override { return true; }
  // Words of 8 bytes, which count what is complete: no order is relied on.
  Contract contract() const override { return {Contract::Order::kNone, 8}; }

  std::uint64_t touched_bytes(std::uint32_t device) const override;
  void set_up(devices::DeviceProcess& device) override;
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override;

 private:
  /// Behind a row's payload.
  struct Name {
    std::uint32_t source;
    std::uint32_t token;
    std::uint32_t k;
    std::uint32_t order;  // for the check alone
  };
  MoeHubBuffers::Sizes sizes(const Problem& problem, const Options& options) const;

  bool large_packets() const { return variant_ == "packets" || variant_ == "all"; }
  bool by_blocks() const { return variant_ == "availability" || variant_ == "all"; }
  std::uint32_t message_bytes() const {
    return static_cast<std::uint32_t>(align_up(payload_bytes(), 16) + sizeof(Name));
  }
  fabric::Address name_of(fabric::Address row) const { return row + align_up(payload_bytes(), 16); }

  emu::Task layer(devices::Core& core, std::uint32_t iteration) override;

  // --- There ---

  emu::Task send_rows(devices::Core& core, std::uint32_t half, std::uint32_t iteration);
  emu::Task send_ends(devices::Core& core, std::uint32_t half);

  // --- Experts ---

  struct Block {
    std::uint32_t local;
    std::uint32_t index;
    std::uint32_t rows;
  };
  /// Of a block's projection.
  std::uint32_t tiles(const devices::Core& core, Projection projection) const {
    const std::uint32_t width = core.costs().tile_columns;
    return (expert_columns(projection) + width - 1) / width;
  }
  emu::Task wait_block(devices::Core& core, std::uint32_t half, Block& block);

  static std::span<const std::uint32_t> words_in(devices::Core& core, const devices::Place& place) {
    const auto bytes = core.probe(place.address, place.bytes);
    return {reinterpret_cast<const std::uint32_t*>(bytes.data()), place.bytes / 4};
  }

  // Who is waited for, in words for the hang report.
  std::string late_sources(devices::Core& core, std::uint32_t half, std::uint32_t local) const;
  std::string late_experts(devices::Core& core, std::uint32_t token) const;
  emu::Task run_blocks(devices::Core& core, std::uint32_t half);
  emu::Task run_kernels(devices::Core& core, std::uint32_t half);
  emu::Task project_up(devices::Core& core, std::uint32_t half, Block block, std::uint32_t& turns);
  void take_rows(devices::Core& core, std::uint32_t half, const Block& block);
  emu::Task project_down(devices::Core& core, Block block, bool waits, std::uint32_t& turns);
  emu::Task wait_tiles(devices::Core& core, fabric::Address word, Projection projection);

  // --- Back ---

  emu::Task return_rows(devices::Core& core, std::uint32_t half, Block block, std::uint32_t& turns);
  emu::Task take_sums(devices::Core& core, std::uint32_t iteration);

  // --- The end ---

  emu::Task clear(devices::Core& core, std::uint32_t half, std::uint32_t iteration);

  const std::string variant_;
  const std::string sabotage_;
  const MoeHubBuffers at_;
  std::uint32_t packet_bytes_ = 0;
};

}  // namespace orrery::moe
