// The prepare step of TensorRT-LLM's two-sided all-to-all: which tokens go to which device, how
// many there are, and how many come from each. Counts travel through a FIFO for every peer in the
// receiver's memory; a count is a word of 8 bytes that says which call it is of.
#pragma once

#include <cstdint>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/expert_placement.h"
#include "moe/layout.h"

namespace orrery::moe {

class TrtllmCounts {
 public:
  TrtllmCounts(Layout& layout, const ExpertPlacement& placement, std::uint32_t tokens,
               std::uint32_t top_k);
  void set_up(fabric::Memory& memory) const;

  /// Of all cores: `ids` are those of `tokens` tokens. When the kernel has ended, the rest is
  /// known.
  emu::Task run(devices::Core& core, fabric::Address ids, std::uint32_t tokens) const;

  /// Tokens that go to `peer`, each once, ascending; the n-th of them.
  std::uint32_t to(devices::Core& core, std::uint32_t peer) const {
    return core.load<std::uint32_t>(sent_ + peer * 4ull);
  }
  std::uint32_t token(devices::Core& core, std::uint32_t peer, std::uint32_t n) const {
    return core.load<std::uint32_t>(list(peer, n));
  }
  /// Tokens that come from `peer`.
  std::uint32_t from(devices::Core& core, std::uint32_t peer) const {
    return core.load<std::uint32_t>(coming_ + peer * 4ull);
  }

 private:
  static constexpr std::uint32_t kDepth = 4;  // of a FIFO: assumed

  emu::Task tell(devices::Core& core, std::uint32_t call, std::uint32_t peer,
                 std::uint32_t count) const;
  emu::Task hear(devices::Core& core, std::uint32_t call, std::uint32_t peer) const;

  fabric::Address list(std::uint32_t peer, std::uint32_t n) const {
    return lists_ + (std::uint64_t{peer} * tokens_ + n) * 4;
  }
  fabric::Address call_of(std::uint32_t core) const { return calls_ + core * 4ull; }
  /// From device `from`; entries of the FIFO to `peer` that it has taken.
  fabric::Address entry(std::uint32_t from, std::uint32_t call) const {
    return fifos_ + (std::uint64_t{from} * kDepth + call % kDepth) * 8;
  }
  fabric::Address taken(std::uint32_t peer) const { return taken_ + peer * 8ull; }

  const ExpertPlacement placement_;
  const std::uint32_t tokens_;
  const std::uint32_t top_k_;
  fabric::Address lists_;
  fabric::Address sent_;
  fabric::Address coming_;
  fabric::Address fifos_;
  fabric::Address taken_;
  fabric::Address calls_;
};

}  // namespace orrery::moe
