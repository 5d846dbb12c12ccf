// A MoE layer that is one kernel: dispatch, experts and combine overlap, rows go through their
// experts one by one, and a token's rows are added in fp32 as they come back. Checked like any
// other layer: each row that an expert takes is, bit for bit, one that routing sent it, once; and
// the output is what adding the right rows in some order can give (reference_bounds()).
//
//   class Mine final : public FusedLayer {
//     emu::Task layer(devices::Core& core, std::uint32_t iteration) override {…}
//   };
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  explicit FusedLayer(const Problem& problem);

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
  void check_output(devices::DeviceProcess& device, std::uint32_t iteration, Verdict& verdict);

  std::uint32_t list_rows_;
  fabric::Address sums_;   // fp32 rows by token; what nobody added to is zero
  fabric::Address taken_;  // SentRow of each row that an expert took, by list; zero: not yet
};

}  // namespace orrery::moe
