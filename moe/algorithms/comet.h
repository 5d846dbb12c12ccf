// Comet: a layer of two kernels whose communication and products overlap tile by tile.
//
//   comet.cc          routing to everybody and to the host, the rows of every expert
//   comet_layer0.cc   communication cores pull all tokens of each device in ring order and flag
//   each
//                     device when it is here; the others multiply tiles of the gate and up
//                     projections, sorted by the last device whose tokens they need
//   comet_layer1.cc   down projections by splits of columns, each flagged when it is finished;
//                     communication cores add a token's rows of this device up, split by split, and
//                     write the sum to the token's home, which adds those of all devices
//
// Sums: the rows of one device's experts in ascending k, rounded to bf16; then devices in ascending
// order (ReductionOrder::by_device), in every split of columns alike.
//
// Source: bytedance/flux, src/moe_ag_scatter and src/moe_gather_rs, as read for this project.
// Unlike there
//   - cores pull, not a copy engine; the same number of them in both kernels;
//   - the exchange of routing stands for the rank barriers at the beginning and the flags of the
//     last split for those at the end;
//   - where there are fewer tiles than cores, each is cut along its depth (grouped_gemm.h).
//
// Buffers are single: routing and sums of a call come when the device has sent its own routing of
// that call, and the tokens of a device are its inputs until it has had everybody's last split.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "moe/algorithms/comm_cores.h"
#include "moe/algorithms/team_meeting.h"
#include "moe/fused_layer.h"

namespace orrery::moe::comet {

class Comet final : public FusedLayer {
 public:
  Comet(const Problem& problem, const Options& options);
  static std::vector<OptionSpec> options();

  Contract contract() const override { return {Contract::Order::kNone, 8}; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 private:
  using Core = devices::Core;
  using Address = fabric::Address;

  /// A row of an expert, and its number among its source's rows for that expert.
  struct Row {
    RowTag from;
    std::uint32_t index;
  };
  /// Up to device.tile_rows rows of an expert, or of a shared one.
  struct Block {
    std::uint32_t group;  // local expert; shared ones behind
    std::uint32_t first;  // row
    std::uint32_t rows;
    std::uint32_t first_step = 0;  // of the devices whose tokens they are
    std::uint32_t last_step = 0;
    bool reads_weights = false;
  };
  /// What one core does of a tile of a block.
  struct Job {
    Block block;
    Share columns;
    std::uint32_t depth;
    bool is_first_part;  // of its depth
  };

  emu::Task layer(Core& core, std::uint32_t iteration) override;

  // --- Routing ---
  emu::Task exchange_routing(Core& core, std::uint32_t iteration);
  emu::Task wait_routing(Core& core, std::uint32_t call);
  emu::Task list_rows(Core& core);
  std::uint32_t tokens_of(Core& core, std::uint32_t source) const {
    return static_cast<std::uint32_t>(core.load<std::uint64_t>(routing_flag(source)));
  }
  std::uint32_t rows_from(Core& core, std::uint32_t local, std::uint32_t source) const {
    return core.load<std::uint32_t>(count_at(local, source));
  }
  std::vector<Block> blocks(Core& core, std::uint32_t iteration);
  std::vector<Job> jobs(const std::vector<Block>& blocks, Projection projection, Share columns);

  // --- Order of devices: this one, then the next ---
  std::uint32_t device_at(std::uint32_t rank, std::uint32_t step) const {
    return (rank + step) % problem_.devices;
  }

  // --- Kernels ---
  emu::Task pull_tokens(Core& core, std::uint32_t call);
  emu::Task up_tiles(Core& core, std::uint32_t iteration);
  emu::Task wait_tokens(Core& core, const Block& block, std::uint32_t call);
  void take_rows(Core& core, const Block& block);
  emu::Task down_tiles(Core& core, std::uint32_t iteration);
  emu::Task reduce(Core& core, std::uint32_t iteration);
  emu::Task send_sums(Core& core, std::uint32_t split, std::uint32_t call,
                      std::vector<devices::PutHandle>& sent);
  /// Rows to add, and where to.
  struct Sum {
    Address to;
    std::vector<WeightedRow> rows;
  };
  /// These columns of each.
  emu::Task add_columns(Core& core, const std::vector<Sum>& sums, Share columns);
  std::vector<WeightedRow> rows_of_token(Core& core, std::uint32_t home, std::uint32_t token);
  emu::Task add_devices(Core& core, std::uint32_t iteration, std::uint32_t split);

  CoreTeam comm() const { return cores_.comm(); }
  CoreTeam compute() const { return cores_.compute(); }
  Share columns_of(std::uint32_t split) const;

  // --- Buffers ---
  std::uint64_t entry(std::uint32_t source, std::uint32_t token, std::uint32_t k) const {
    return (std::uint64_t{source} * problem_.token_bound + token) * problem_.top_k() + k;
  }
  std::uint64_t row(std::uint32_t local, std::uint32_t i) const {
    return std::uint64_t{local} * expert_rows_bound_ + i;
  }
  Address routing_flag(std::uint32_t source) const {
    return routing_flags_ + std::uint64_t{source} * 8;
  }
  Address id_at(std::uint64_t entry) const { return all_ids_ + entry * 4; }
  Address weight_at(std::uint64_t entry) const { return all_weights_ + entry * 4; }
  Address row_at(std::uint64_t entry) const { return row_of_ + entry * 4; }
  Address count_at(std::uint32_t local, std::uint32_t source) const {
    return counts_ + (std::uint64_t{local} * problem_.devices + source) * 4;
  }
  Address list_at(std::uint64_t row) const { return list_ + row * sizeof(Row); }
  Address token_row(Address region, std::uint32_t device, std::uint32_t token) const {
    return region + (std::uint64_t{device} * problem_.token_bound + token) * row_stride();
  }
  Address sum_flag(std::uint32_t split, std::uint32_t source, std::uint32_t lane) const {
    return sum_flags_ +
           ((std::uint64_t{split} * problem_.devices + source) * cores_.count() + lane) * 4;
  }

  const CommCores cores_;           // Comet adapts their number to the sizes at hand
  const std::uint32_t split_unit_;  // columns
  const std::uint32_t splits_;
  const std::uint32_t expert_rows_bound_;
  const TeamMeeting tokens_here_;  // by device: its tokens
  const TeamMeeting splits_done_;
  Address all_ids_;        // int32 [entry]
  Address all_weights_;    // float [entry]
  Address routing_flags_;  // uint64 [source]: call and tokens
  Address counts_;         // uint32 [local][source]
  Address list_;           // Row [row]
  Address row_of_;         // uint32 [entry] of local experts: row of the expert
  Address gathered_;       // rows by [device][token]
  Address computed_;       // by row: what the experts make of them
  Address outputs_;        // by row, column split by column split
  Address partial_;        // sums by [home][token]
  Address sums_in_;        // at home: sums by [device][token]
  Address sum_flags_;      // uint32 [split][source][communication core]
};

}  // namespace orrery::moe::comet
