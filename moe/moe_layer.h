// What every dispatch/combine algorithm shares: the layer's buffers, its inputs, the experts
// between dispatch and combine, and the checks of both (R10). An algorithm adds its windows and the
// two programs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "moe/algorithm.h"
#include "moe/grouped_gemm.h"
#include "moe/layout.h"
#include "moe/quantise.h"
#include "moe/reduction_order.h"
#include "moe/reference.h"
#include "moe/row_identity.h"
#include "moe/sent_rows.h"
#include "moe/share.h"

namespace orrery::moe {

class MoeLayer : public Algorithm {
 public:
  enum Operation : std::uint32_t { kDispatch, kExperts, kCombine };
  static constexpr bool kMovesRows = true;

  /// Where a dispatch leaves the rows of a device's experts.
  enum class RowOrder : std::uint8_t {
    /// One expert's rows after the other's, those of an expert by source, then in the order in
    /// which
    /// the source lists them.
    kSorted,
    /// Each local expert has room for all rows that it could get, and takes them in the order in
    /// which they come.
    kAsTheyCome,
  };

  std::vector<std::string> operations() const override {
    return {"dispatch", "experts", "combine"};
  }
  const Layout& layout() const override { return layout_; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override;
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override;
  emu::Task program(devices::Core& core, std::uint32_t operation, std::uint32_t iteration) override;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;
  bool has_gate() const override { return true; }
  emu::Task gate(devices::Core& core, std::uint32_t iteration) override;

 protected:
  MoeLayer(const Problem& problem, Precision precision, RowOrder order = RowOrder::kSorted);

  virtual emu::Task dispatch(devices::Core& core, std::uint32_t iteration) = 0;
  virtual emu::Task combine(devices::Core& core, std::uint32_t iteration) = 0;

  // --- Sizes ---
  std::uint32_t payload_bytes() const { return payload_bytes_; }  // of a dispatched row
  /// Distance of rows of windows, expanded rows and outputs. All the same, so that a row moves from
  /// one to the next in place: long enough for a dispatched row with 32 bytes beside it and for an
  /// output.
  std::uint64_t row_stride() const {
    return align_up(std::max<std::uint64_t>(align_up(payload_bytes_, 32) + 32, output_row_bytes()),
                    512);
  }
  std::uint32_t output_row_bytes() const { return 2 * problem_.hidden(); }  // bf16
  std::uint32_t local_experts(std::uint32_t device) const {
    return problem_.placement.count(device);
  }
  std::uint32_t max_local_experts() const { return problem_.placement.max_local(); }
  std::uint32_t tokens(std::uint32_t device, std::uint32_t iteration) const {
    return problem_.tables[iteration].tokens(device);
  }
  std::uint64_t rows(std::uint32_t device, std::uint32_t iteration) const;

  // --- Rows: their bytes, or with --payload control what stands for them ---
  /// Writes the payload of a token's row to `record`; returns its scale.
  float encode(devices::Core& core, std::uint32_t token, fabric::Address record) const;
  /// The same once more, from another record of the same token.
  void encode_again(devices::Core& core, fabric::Address record, fabric::Address other) const;
  /// A row that a token's sum takes in, in this order.
  struct WeightedRow {
    fabric::Address row;
    float weight;
  };
  /// Writes the sum of `rows`, a row of bf16, to `to`, which is none of them. Costs no virtual
  /// time.
  void sum_rows(devices::Core& core, fabric::Address to, std::span<const WeightedRow> rows) const;
  /// The same for a part of the columns, the first of which hold an identity or none of it.
  void sum_columns(devices::Core& core, fabric::Address to, std::span<const WeightedRow> rows,
                   Share columns) const;
  /// The token's combined row: the sum of `rows`. Costs no virtual time.
  void weighted_sum(devices::Core& core, std::uint32_t token,
                    std::span<const WeightedRow> rows) const {
    sum_rows(core, output(token), rows);
  }
  /// Combined rows are added in this order, instead of in ascending k: what they are checked
  /// against. For constructors.
  void reduce_in(ReductionOrder order) { reduction_ = std::move(order); }

  // --- Buffers of a device. Rows of expanded, scales, tags and outputs lie as RowOrder says. ---
  /// Where the rows of a local expert begin, kAsTheyCome.
  std::uint64_t first_row(std::uint32_t local) const { return local * most_rows_; }
  fabric::Address input(std::uint32_t token) const {
    return input_ + std::uint64_t{token} * output_row_bytes();
  }
  fabric::Address ids() const { return ids_; }          // int32 [token][k], -1 masked
  fabric::Address weights() const { return weights_; }  // float [token][k]
  /// Of one of this device's tokens, by choice.
  std::span<const std::int32_t> ids_of(devices::Core& core, std::uint32_t token) const {
    return core.array<std::int32_t>(ids() + std::uint64_t{token} * problem_.top_k() * 4,
                                    problem_.top_k());
  }
  std::span<const float> weights_of(devices::Core& core, std::uint32_t token) const {
    return core.array<float>(weights() + std::uint64_t{token} * problem_.top_k() * 4,
                             problem_.top_k());
  }
  fabric::Address expanded(std::uint64_t row) const { return expanded_ + row * row_stride(); }
  fabric::Address scale(std::uint64_t row) const { return scales_ + row * sizeof(float); }
  fabric::Address tag(std::uint64_t row) const { return tags_ + row * sizeof(RowTag); }
  fabric::Address expert_rows(std::uint32_t local) const {
    return expert_rows_ + local * std::uint64_t{4};
  }
  fabric::Address expert_output(std::uint64_t row) const { return outputs_ + row * row_stride(); }
  /// A token's combined row takes the place of its input row.
  fabric::Address output(std::uint32_t token) const { return input(token); }

  // --- For layers that apply experts and check rows in their own way ---
  /// The bytes of a row that hold its identity, with --payload control.
  std::span<std::byte> head(fabric::Memory& memory, fabric::Address row) const {
    return memory.view(row, head_bytes_);
  }
  RowIdentity identity_at(const fabric::Memory& memory, fabric::Address row) const {
    return identity_in(memory.view(row, head_bytes_));
  }
  RowIdentity fit(RowIdentity identity) const { return truncated(identity, head_bytes_); }
  /// Of a token's combined row, whose rows `add` (sum, row, weight) adds in ascending k.
  using AddIdentity = RowIdentity (*)(RowIdentity sum, RowIdentity row, float weight);
  RowIdentity combined_identity(std::uint32_t device, std::uint32_t token, std::uint32_t iteration,
                                AddIdentity add) const;
  /// The same where rows are added as the layer's order of reduction has it.
  RowIdentity combined_identity(std::uint32_t device, std::uint32_t token,
                                std::uint32_t iteration) const;
  /// The rows that all devices send in an iteration.
  std::shared_ptr<const SentRows> sent_rows(std::uint32_t iteration);
  /// Are the device's combined rows, bit for bit, what reduce_in() makes of the right ones?
  Verdict verify_combine(devices::DeviceProcess& device, std::uint32_t iteration);
  /// The products of one projection of a device's experts: `up` is the gate and up projections. The
  /// routed experts' rows and, behind them, the device's own tokens for the shared ones.
  virtual std::vector<GemmGroup> expert_groups(std::uint32_t device, std::uint32_t iteration,
                                               bool up) const;

  const Problem& problem_;
  const Precision precision_;
  const RowOrder order_;
  Layout layout_;

 private:
  // A row at an expert of this device: what it should be, and where it is.
  struct ReceivedRow {
    std::uint32_t expert;
    std::uint32_t index;  // among the expert's rows, as routing lists them
    RowTag expected;
    std::uint64_t at;
    RowTag tag;
    SentRow row;
  };
  std::vector<ReceivedRow> received_rows(const fabric::Memory& memory, std::uint32_t device,
                                         std::uint32_t iteration, Verdict& verdict) const;
  // Calls visit(expert, row) for each row that the device's experts have, by local expert.
  template <typename Visit>
  void for_each_row(devices::Core& core, Visit&& visit) const;
  void apply_experts(devices::Core& core);
  void replace(devices::Core& core, std::uint64_t row) const;
  emu::Task run_experts(devices::Core& core, std::uint32_t iteration);
  void apply_experts_to_identities(devices::Core& core) const;
  Verdict verify_dispatch(devices::DeviceProcess& device, std::uint32_t iteration);

  ReductionOrder reduction_;
  std::uint32_t payload_bytes_;
  std::uint32_t head_bytes_;  // of a row that hold its identity
  std::uint64_t most_rows_;   // of one expert
  std::uint64_t max_rows_;
  fabric::Address input_;
  fabric::Address ids_;
  fabric::Address weights_;
  fabric::Address expanded_;
  fabric::Address scales_;
  fabric::Address tags_;
  fabric::Address expert_rows_;
  fabric::Address outputs_;
  // Of the latest iterations: devices are hardly ever further apart.
  std::array<std::shared_ptr<const SentRows>, 4> sent_rows_;
  std::mutex sent_rows_mutex_;
};

}  // namespace orrery::moe
