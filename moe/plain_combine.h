// A MoE layer whose combine is there already, for whoever writes a dispatch: plain and right, not
// fast. Every expert output goes back to its origin by a put of its own, followed by a fence and a
// flag with the number of the call; each device then adds its tokens' rows in ascending k.
//
//   class Mine final : public PlainCombine {
//     Mine(const Problem& problem, const Options&) : PlainCombine(problem, Precision::kBf16) {…}
//     emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override {…}
//   };
#pragma once

#include <cstdint>

#include "moe/moe_layer.h"

namespace orrery::moe {

class PlainCombine : public MoeLayer {
 public:
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 protected:
  PlainCombine(const Problem& problem, Precision precision);

  emu::Task combine(devices::Core& core, std::uint32_t iteration) final;

 private:
  // An entry is a token's k-th choice. A slot is used by one call at a time: its row comes back
  // only after its device has sent it, and a device sends when it has ended the call before.
  std::uint32_t entry(std::uint32_t token, std::uint32_t k) const {
    return token * problem_.top_k() + k;
  }
  fabric::Address returned(std::uint32_t entry) const {
    return returned_ + entry * std::uint64_t{row_stride()};
  }
  fabric::Address arrived(std::uint32_t entry) const { return arrived_ + entry * kFlagStride; }
  emu::Task send_back(devices::Core& core, std::uint32_t iteration);
  emu::Task add_up(devices::Core& core, std::uint32_t token, std::uint32_t iteration);

  static constexpr std::uint64_t kFlagStride = 64;
  fabric::Address returned_;
  fabric::Address arrived_;
};

}  // namespace orrery::moe
