// mori's dispatch and combine within a node: whoever sends reserves room at the receiver. A block
// counts its tokens by destination, reserves as many rows there by one remote fetch-and-add each,
// and stores rows with all that is known of them; a device's blocks then meet, and a word of rows
// sent, plus one, tells every peer. A token travels once to each device. In combine the blocks add
// up what their device's experts made of a row, all devices meet, and whoever had the token reads
// those sums from its peers.
//
// Source: ROCm/mori, src/ops/dispatch_combine/intranode.hpp, as read for this project. What differs
// here: rows, ids and weights are one put, not three; a block is a core, its lanes ask all
// destinations at once, and peers' words are dealt to the cores (there: lanes of one warp). There a
// sender reads a peer's word until that peer has cleared it; here offsets, rows and words exist
// twice and take turns, which needs no reading: a device that is in call n+2 has had everybody's
// word of call n+1, sent when their call n was over. Rows are handed to the experts in a kernel of
// its own behind the dispatch, and weighted where they are first added, both as in the layers that
// call mori. A block reads a token's sums from one peer after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe/algorithms/rank_barrier.h"
#include "moe/dedup_layer.h"

namespace orrery::moe {

class Mori final : public DedupLayer {
 public:
  Mori(const Problem& problem, const Options& options);

  Contract contract() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  void set_up(devices::DeviceProcess& device) override;

 private:
  emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override;
  emu::Task combine(devices::Core& core, std::uint32_t iteration) override;

  // --- Dispatch ---
  emu::Task reserve(devices::Core& core, std::uint32_t iteration, std::uint32_t half,
                    std::vector<std::uint32_t>& slots);
  emu::Task send(devices::Core& core, std::uint32_t iteration, std::uint32_t half,
                 std::vector<std::uint32_t>& slots);
  emu::Task tell_peers(devices::Core& core, std::uint32_t half);
  emu::Task hear_from_peers(devices::Core& core, std::uint32_t half);
  emu::Task expand_all(devices::Core& core, std::uint32_t half);

  // --- Combine ---
  emu::Task sum_own(devices::Core& core);
  emu::Task add_up(devices::Core& core, std::uint32_t iteration);

  std::uint32_t next_call(devices::Core& core, fabric::Address calls) const;
  // --- Device memory. `half`: of two that calls use in turn. ---
  fabric::Address row_at(fabric::Address region, std::uint64_t row) const {
    return region + row * message_stride();
  }
  fabric::Address staged(std::uint32_t token) const { return row_at(staged_, token); }
  /// Rows of this device's window, in the order of their reservations.
  fabric::Address received(std::uint32_t half, std::uint64_t slot) const {
    return row_at(received_, std::uint64_t{half} * window_rows_ + slot);
  }
  fabric::Address taken(std::uint64_t slot) const { return taken_ + slot * taken_bytes(); }
  fabric::Address sum_of(std::uint64_t slot) const { return row_at(sums_, slot); }
  fabric::Address fetched(std::uint32_t core, std::uint32_t which) const {
    return row_at(fetched_, std::uint64_t{core} * problem_.top_k() + which);
  }
  /// Rows of the window that are reserved.
  fabric::Address offset(std::uint32_t half) const { return offsets_ + std::uint64_t{half} * 4; }
  /// What the words held that a core's lanes added to.
  fabric::Address reserved(std::uint32_t core) const {
    return reserved_ + std::uint64_t{core} * problem_.devices * 4;
  }
  /// Rows that this device sends to a peer in this call.
  fabric::Address sent(std::uint32_t peer) const { return sent_ + peer * std::uint64_t{4}; }
  /// Rows that a peer sends this device, plus one; 0 until it says so.
  fabric::Address told(std::uint32_t half, std::uint32_t peer) const {
    return told_ + (std::uint64_t{half} * problem_.devices + peer) * 4;
  }
  /// Where the token's row is at the `which`-th of its owners.
  fabric::Address place(std::uint32_t token, std::uint32_t which) const {
    return places_ + (std::uint64_t{token} * problem_.top_k() + which) * 4;
  }
  fabric::Address calls(fabric::Address of, std::uint32_t core) const {
    return of + core * std::uint64_t{4};
  }

  const std::string sabotage_;
  const RankBarrier barrier_;
  const std::uint64_t window_rows_;
  fabric::Address staged_;
  fabric::Address received_;
  fabric::Address sums_;
  fabric::Address fetched_;
  fabric::Address taken_;
  fabric::Address offsets_;
  fabric::Address reserved_;
  fabric::Address sent_;
  fabric::Address told_;
  fabric::Address total_;  // rows of this call
  fabric::Address places_;
  fabric::Address dispatch_calls_;  // by core
  fabric::Address combine_calls_;
};

}  // namespace orrery::moe
