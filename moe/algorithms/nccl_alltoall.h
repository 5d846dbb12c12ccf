// NVIDIA's sample all-to-all kernels over a symmetric window: every device stores `bytes` to every
// one, itself too, and how it is known that all has come is the question.
//
//   barrier:  all blocks of a number meet behind the stores, by a fence and a word to everybody;
//             two windows in turn, so that nobody stores into what is still being read. With
//             barriers=both they meet before the stores, too, and one window does.
//   sentinel: no barrier. The last word of every 16 bytes is the sentinel until data are there,
//             since stores of 16 bytes appear whole. Receivers poll the data themselves; a window
//             is filled with the sentinel again while the next one is in use, so three take turns:
//             a peer that is a call ahead stores into the second, and into the third only when it
//             has what this device sends after it has filled it. Only the first two calls begin
//             with a barrier, which tells that all have filled their windows.
//
// Source: NVIDIA/nccl, contrib/custom_algos/alltoall (lsa_simple_alltoall_kernel.cuh,
// lsa_poison_alltoall_kernel.cuh, main.cu), as read for this project. Blocks are cores here; their
// threads read, write and poll side by side. The kernel forbids payload words that equal the
// sentinel (clash=forbid: such a run hangs, as there); clash=replace flips their lowest bit as they
// are sent, which is what Lamport-style kernels do with the zero that is theirs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe/algorithm.h"
#include "moe/layout.h"

namespace orrery::moe {

class NcclAllToAll final : public Algorithm {
 public:
  NcclAllToAll(const Problem& problem, const Options& options);

  std::vector<std::string> operations() const override { return {"put"}; }
  Contract contract() const override;
  const Layout& layout() const override { return layout_; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override;
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return blocks_; }
  void set_up(devices::DeviceProcess& device) override;
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override;
  emu::Task program(devices::Core& core, std::uint32_t operation, std::uint32_t iteration) override;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

  static constexpr std::uint32_t kSentinel = 0xfffafffa;

 private:
  static constexpr std::uint32_t kLineBytes = 16;   // one store, and what appears whole
  static constexpr std::uint32_t kLastWord = 12;    // of a line
  static constexpr std::uint32_t kOpenedCalls = 2;  // by sentinel: those that begin with a barrier

  enum Point : std::uint32_t { kOpening, kClosing, kPoints };
  /// The lines of a row that a block moves.
  struct Share {
    std::uint32_t first;
    std::uint32_t lines;
  };
  Share share_of(std::uint32_t block) const;

  // --- The program's parts ---
  emu::Task put_to_all(devices::Core& core, Share share, std::uint32_t window);
  emu::Task meet(devices::Core& core, Point point, std::uint32_t call);
  emu::Task wait_for_data(devices::Core& core, Share share, std::uint32_t window);
  emu::Task fill_with_sentinels(devices::Core& core, Share share, std::uint32_t window);
  void replace_sentinels(devices::Core& core, fabric::Address row, Share share) const;
  /// One round of a block's threads over `places` of `lines` lines each takes so long by place.
  emu::Time read_time(const devices::Core& core, std::uint32_t places, std::uint32_t lines) const;
  std::uint32_t turns(std::uint64_t lines) const {
    return static_cast<std::uint32_t>((lines + threads_ - 1) / threads_);
  }

  /// What `source` gives its kernel for `destination`, and what must arrive.
  void fill_row(std::uint32_t iteration, std::uint32_t source, std::uint32_t destination,
                std::span<std::byte> row) const;
  void fill_expected(std::uint32_t iteration, std::uint32_t source, std::uint32_t destination,
                     std::span<std::byte> row) const;

  // --- Device memory ---
  fabric::Address out(std::uint32_t destination) const { return out_ + destination * stride_; }
  fabric::Address in(std::uint32_t window, std::uint32_t source) const {
    return in_ + (std::uint64_t{window} * problem_.devices + source) * stride_;
  }
  fabric::Address word(Point point, std::uint32_t block, std::uint32_t source) const {
    return words_ + ((std::uint64_t{point} * blocks_ + block) * problem_.devices + source) *
                        std::uint64_t{4};
  }
  /// Bytes of a row that are carried: with --payload control its beginning, unless its words are
  /// flags.
  std::uint32_t held_bytes() const {
    return problem_.control && !by_sentinel_ ? kLineBytes : bytes_;
  }

  const Problem& problem_;
  const std::uint32_t bytes_;
  const bool by_sentinel_;
  const bool opens_;  // with a barrier before the stores
  const bool replaces_;
  const bool all_sentinels_;  // what the payload consists of, for tests
  const std::uint32_t blocks_;
  const std::uint32_t threads_;  // of a block
  const emu::Time barrier_;      // of a block's threads, around the words of a barrier
  const std::string sabotage_;
  const std::uint32_t rounds_;
  const std::uint64_t stride_;
  Layout layout_;
  fabric::Address out_ = 0;
  fabric::Address in_ = 0;
  fabric::Address words_ = 0;
};

}  // namespace orrery::moe
