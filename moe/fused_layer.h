// A MoE layer that is one kernel: dispatch, experts and combine overlap and rows go through their
// experts one by one. Checked like any other layer: each row that an expert takes is, bit for bit,
// one that routing sent it, once; and the output is, where a token's rows are added in fp32 as they
// come back, what adding the right rows in some order can give (reference_bounds()), and where
// their order is defined, bit for bit that.
//
//   class Mine final : public FusedLayer {
//     emu::Task layer(devices::Core& core, std::uint32_t iteration) override {…}
//   };
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "moe/grouped_gemm.h"
#include "moe/moe_layer.h"

namespace orrery::moe {

class FusedLayer : public MoeLayer {
 public:
  std::vector<std::string> operations() const override { return {"layer"}; }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 0; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  /// Rows there and back.
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override;
  emu::Task program(devices::Core& core, std::uint32_t, std::uint32_t iteration) override {
    return layer(core, iteration);
  }
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

 protected:
  /// How a token's rows become its output.
  enum class Sums : std::uint8_t {
    kAsTheyCome,  // add_to_sum() as rows come back, then round_sum()
    kBySlots,     // each row to its own slot(), then add_slots(), in ascending k
    kOwn,         // by sum_columns() or weighted_sum(), as reduce_in() says
  };
  explicit FusedLayer(const Problem& problem, Sums sums = Sums::kAsTheyCome);

  virtual emu::Task layer(devices::Core& core, std::uint32_t iteration) = 0;

  /// Rows that one device can have for one expert.
  std::uint32_t most_list_rows() const { return list_rows_; }
  /// Rows of the same source for a local expert, in the order in which the source lists them.
  struct ExpertRow {
    std::uint32_t local;   // of the experts of this device
    std::uint32_t source;  // device
    std::uint32_t index;   // among the source's for that expert
    fabric::Address from;  // the row as it was dispatched, complete
    fabric::Address to;    // where its output goes
  };
  /// Applies the rows' experts. The host does this on its threads; it takes no virtual time.
  void apply_experts(devices::Core& core, const std::vector<ExpertRow>& rows) const;

  /// What one tile of the experts costs (gemm_tile()). Of the gate and up projections, which are
  /// one product, or the down projection.
  enum class Projection : std::uint8_t { kUp, kDown };
  std::uint32_t expert_columns(Projection projection) const {
    return projection == Projection::kUp ? 2 * problem_.workload.expert_intermediate()
                                         : problem_.hidden();
  }
  GemmTile expert_tile(Projection projection, std::uint32_t rows, Share columns,
                       bool reads_weights) const;
  /// The time of such a tile of routed experts. `rows` up to device.tile_rows; `columns` of the
  /// projection, of any number: where they are more than a tile's, one tile after the other.
  emu::Task run_expert_tile(devices::Core& core, Projection projection, std::uint32_t rows,
                            Share columns, bool reads_weights) const;
  /// Writes a part of an output's columns, which are complete at `from`, to the row at `to`. The
  /// first part has all of an identity or none. For tiles of the down projection, whose rows were
  /// computed when the experts took them; takes no virtual time.
  void copy_columns(devices::Core& core, fabric::Address to, fabric::Address from,
                    Share columns) const;

  /// Reads complete rows of a token, adds them in this order and writes its output; with the time
  /// that takes. The rows are given up.
  emu::Task add_rows(devices::Core& core, std::uint32_t token, std::vector<WeightedRow> rows) const;

  // --- Sums::kBySlots ---
  /// Of this device's token, where the row of its k-th choice goes.
  fabric::Address slot(std::uint32_t token, std::uint32_t k) const {
    return slots_ + (std::uint64_t{token} * problem_.top_k() + k) * row_stride();
  }
  /// add_rows() of a token's choices, all but masked ones, in ascending k.
  emu::Task add_slots(devices::Core& core, std::uint32_t token);

  // --- Sums::kAsTheyCome ---
  /// Adds weight * row to the token's sum, as atomic adds of the memory: those of several cores
  /// commute, and so --check hears only of the row. Takes no virtual time.
  void add_to_sum(devices::Core& core, std::uint32_t token, fabric::Address row,
                  float weight) const;
  /// Rounds the token's sum into its output and forgets it. After all adds.
  void round_sum(devices::Core& core, std::uint32_t token) const;

 private:
  // The parts of a layer in three operations, which this one is not.
  emu::Task dispatch(devices::Core&, std::uint32_t) final { return {}; }
  emu::Task combine(devices::Core&, std::uint32_t) final { return {}; }

  fabric::Address sum(std::uint32_t token) const {
    return sums_ + std::uint64_t{token} * problem_.hidden() * sizeof(float);
  }
  fabric::Address taken(std::uint32_t local, std::uint32_t source, std::uint32_t index) const {
    const std::uint64_t list = std::uint64_t{local} * problem_.devices + source;
    return taken_ + (list * list_rows_ + index) * sizeof(SentRow);
  }
  void apply_expert(const fabric::Memory& memory, const ExpertRow& row, std::uint32_t expert,
                    std::span<std::byte> out, SentRow& taken) const;
  void check_taken(devices::DeviceProcess& device, std::uint32_t iteration, Verdict& verdict);
  void check_bounds(devices::DeviceProcess& device, std::uint32_t iteration, Verdict& verdict);

  const Sums how_;
  std::uint32_t list_rows_;
  fabric::Address slots_ = 0;
  fabric::Address sums_ = 0;  // fp32 rows by token; what nobody added to is zero
  fabric::Address taken_;     // SentRow of each row that an expert took, by list; zero: not yet
};

}  // namespace orrery::moe
