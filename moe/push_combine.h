// The combine of the CANN family (v2, and the sgl kernels for prefill): every expert output is
// pushed into its origin's window at (token, k) and followed, by the same core behind a pipe fence,
// by a 32-byte status; each device then waits for its tokens' rows, clears the statuses and adds in
// ascending k.
//
//   class Mine final : public PushCombine {
//     Mine(const Problem& problem, const Options&) : PushCombine(problem, Precision::kInt8) {…}
//     emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override {…}
//   };
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "moe/moe_layer.h"

namespace orrery::moe {

class PushCombine : public MoeLayer {
 public:
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 protected:
  PushCombine(const Problem& problem, Precision precision) : MoeLayer(problem, precision) {}

  /// Windows for `halves` calls at a time: 2 where a device may send its outputs of a call while
  /// another still adds up those of the call before.
  void lay_out_combine(std::uint32_t halves);
  /// A call that uses the window's `half`.
  emu::Task push_combine(devices::Core& core, std::uint32_t iteration, std::uint32_t half);

  std::uint64_t combine_slot_bytes() const { return align_up(output_row_bytes(), 512); }

 private:
  using Arrived = std::array<float, 8>;  // one 32-byte block of a status

  fabric::Address combine_slot(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    const std::uint64_t entries = std::uint64_t{problem_.token_bound} * problem_.top_k();
    return combine_window_ +
           (half * entries + std::uint64_t{token} * problem_.top_k() + k) * combine_slot_bytes();
  }
  fabric::Address arrived(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    return arrived_ + half * arrived_half_bytes_ +
           (std::uint64_t{token} * problem_.top_k() + k) * sizeof(Arrived);
  }
  emu::Task send_outputs(devices::Core& core, std::uint32_t half);
  emu::Task reduce(devices::Core& core, std::uint32_t iteration, std::uint32_t half);
  void add_up(devices::Core& core, std::uint32_t half, std::uint32_t token,
              std::span<const std::int32_t> ids, std::span<const float> weights);

  std::uint64_t arrived_half_bytes_ = 0;
  fabric::Address combine_window_ = 0;
  fabric::Address arrived_ = 0;
};

}  // namespace orrery::moe
