// FlashMoE: the whole layer as one persistent kernel whose cores are processors, subscribers and a
// scheduler, with the ways to signal that Perseus compares (arXiv 2605.00686).
//
//   flashmoe_dispatch.cc    processors gather rows by expert and send each expert one packet
//   flashmoe_subscriber.cc  poll the flags of packets and of returned rows
//   flashmoe_scheduler.cc   hands tiles to processors, one doorbell each
//   flashmoe_processor.cc   tiles of both projections, rows back to their owners, sums
//   flashmoe_sender.cc      signaling=decoupled: one core that puts and signals for all
//
// Roles, options and registration are in flashmoe.cc.
//
// Source: osayamenja/FlashMoE, csrc/include/flashmoe/os and os/processor, as read for this project.
// Unlike there
//   - one core gathers an expert's rows, not a group of blocks; scheduler and subscribers are
//   cores,
//     not warps of one; the gate has run;
//   - processors and subscribers reach the scheduler through one queue whose slots they take by an
//     atomic, and not by a doorbell each that it sweeps;
//   - rows come back by blocks of rows from near devices as well, not by tiles; their flags are per
//     (expert, block);
//   - tokens are summed in fp32 and rounded by a last pass;
//   - a device without experts is sent an empty packet all the same, so that no device is more than
//     a round ahead;
//   - with decoupled signals the puts and fences of a group are one core's, as a fence here is
//   about
//     the puts of its core; where a NIC or a proxy does the work that core only asks for it, where
//     cores store by themselves it streams all rows and more senders are faster;
//   - shared experts are left out;
//   - weights are read from memory once per layer, by the first tile that needs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "moe/algorithms/flashmoe_layout.h"
#include "moe/algorithms/signals.h"
#include "moe/fused_layer.h"

namespace orrery::moe::flashmoe {

class Flashmoe final : public FusedLayer {
 public:
  Flashmoe(const Problem& problem, const Options& options);

  Contract contract() const override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 private:
  using Core = devices::Core;
  using Address = fabric::Address;

  /// What a device sends to one expert, or, to a device without experts, to nobody in particular.
  struct Parcel {
    static constexpr std::uint32_t kNoExpert = ~std::uint32_t{0};
    std::uint32_t device;
    std::uint32_t local;
    std::uint32_t expert;
  };
  struct Signal {
    std::uint32_t device;
    Address to;
    std::uint64_t value;
    bool behind_put;  // else there is nothing to order it behind
    bool back;        // of rows on their way back
  };
  /// What a core has under way.
  struct Outgoing {
    struct Put {
      devices::PutHandle handle;
      std::vector<devices::Piece> pieces;
    };
    std::deque<Put> puts;         // their sources are given up when they have left
    std::vector<Signal> signals;  // not issued yet
  };
  /// What a decoupled signal waits for.
  struct Group {
    std::int64_t open = 0;    // parcels, or packets that have not been announced
    std::int64_t blocks = 0;  // to send back
    bool has_puts = false;
    std::vector<Signal> signals;
  };
  struct Groups;
  struct Tasks;

  emu::Task layer(Core& core, std::uint32_t iteration) override;

  // --- Roles, by core: processors, senders, subscribers, one scheduler ---
  std::uint32_t processors() const { return problem_.costs.cores - 1 - subscribers_ - senders_; }
  std::uint32_t first_subscriber() const { return processors() + senders_; }
  std::uint32_t subscribers(const Options& options) const;

  // --- Rounds ---
  std::uint16_t round(std::uint32_t iteration) const;
  std::uint32_t set(std::uint32_t iteration) const { return iteration % 2; }
  std::uint32_t blocks_of(std::uint32_t rows) const {
    return (rows + block_rows_ - 1) / block_rows_;
  }
  Note note(std::uint32_t iteration, Note::Kind kind, std::uint32_t unit = 0,
            std::uint32_t block = 0) const;
  std::uint64_t announcement(std::uint32_t iteration, std::uint32_t rows) const;

  // --- Where things go ---
  bool is_near(std::uint32_t device, std::uint32_t other) const {
    return problem_.nodes[device] == problem_.nodes[other];
  }
  /// The n-th parcel of a device, which begins with those of the next device.
  const Parcel& parcel(std::uint32_t device, std::uint32_t n) const;
  std::uint32_t number_of_parcels() const { return static_cast<std::uint32_t>(parcels_.size()); }
  /// The order in which a device takes others: the next one first.
  std::uint32_t turn(std::uint32_t device, std::uint32_t other) const {
    return (other + problem_.devices - device - 1) % problem_.devices;
  }
  std::uint32_t group_of_parcel(std::uint32_t device, std::uint32_t n) const;
  std::uint32_t group_of_unit(std::uint32_t device, std::uint32_t unit) const;
  std::uint32_t sender_of(std::uint32_t group) const { return group % senders_; }

  // --- Notes between cores of a device ---
  emu::Task post(Core& core, std::uint32_t inbox, Note note) const;
  emu::Task next_note(Core& core, Address slot, std::uint32_t iteration, Note& found) const;

  // --- Dispatch ---
  emu::Task send_packets(Core& core, std::uint32_t iteration, Outgoing& out);
  void list_rows(Core& core, std::uint32_t iteration);
  emu::Task send_parcel(Core& core, std::uint32_t iteration, std::uint32_t n, Outgoing& out);
  emu::Task put_parcel(Core& core, std::uint32_t iteration, const Parcel& parcel, Outgoing& out,
                       const Signal* signal = nullptr);
  emu::Task put_all_first(Core& core, std::uint32_t iteration, Outgoing& out);
  Signal parcel_signal(Core& core, std::uint32_t iteration, const Parcel& parcel) const;
  bool drops(const Core& core, std::uint32_t n) const;

  // --- Signals ---
  bool skips_fences(bool back) const {
    return sabotage_ == "skip-fence" || sabotage_ == (back ? "skip-fence-back" : "skip-fence-out");
  }
  emu::Task order(Core& core, bool near, bool back);
  emu::Task tell(Core& core, const Signal& signal);
  emu::Task flush(Core& core, Outgoing& out);
  /// Whether the signal goes with its put.
  bool is_one_request(Core& core, std::uint32_t device, bool back) const {
    return signaling_ == Signaling::kCoupled && !is_near(core.rank(), device) &&
           !skips_fences(back) && moe::is_one_request(core, device, ordering_);
  }
  /// With `signal` if it goes with it.
  emu::Task put(Core& core, std::uint32_t device, std::vector<devices::Piece> pieces, Outgoing& out,
                const Signal* signal = nullptr);
  emu::Task give_up_sources(Core& core, Outgoing& out);
  void give_up(Core& core, Outgoing& out) const;

  // --- Processor ---
  emu::Task processor(Core& core, std::uint32_t iteration);
  emu::Task run_task(Core& core, std::uint32_t iteration, const Note& task, Outgoing& out);
  emu::Task send_back(Core& core, std::uint32_t iteration, std::uint32_t unit, std::uint32_t block,
                      Outgoing& out);
  emu::Task put_block(Core& core, std::uint32_t iteration, std::uint32_t unit, std::uint32_t block,
                      Outgoing& out, const Signal* signal = nullptr);
  Signal block_signal(Core& core, std::uint32_t iteration, std::uint32_t unit,
                      std::uint32_t block) const;
  emu::Task add_block(Core& core, const Note& task);
  emu::Task finish_tokens(Core& core, std::uint32_t iteration);
  emu::Time tile_time(double flop, double weight_bytes, bool cold) const;
  std::uint32_t rows_of_unit(Core& core, std::uint32_t iteration, std::uint32_t unit) const;
  std::uint32_t rows_in(std::uint32_t rows, std::uint32_t block) const {
    return std::min(rows - block * block_rows_, block_rows_);
  }
  std::uint32_t up_columns() const;
  std::uint32_t down_columns() const;

  emu::Task subscriber(Core& core, std::uint32_t iteration);
  emu::Task scheduler(Core& core, std::uint32_t iteration);
  emu::Task hand_out(Core& core, Tasks& tasks, std::uint32_t processor, const Note& task);

  // --- Sender ---
  emu::Task sender(Core& core, std::uint32_t iteration);
  emu::Task send_note(Core& core, std::uint32_t iteration, const Note& note, Groups& groups,
                      Outgoing& out);
  emu::Task end_group(Core& core, Group& group, bool back);

  const std::uint32_t block_rows_;
  const std::uint32_t tile_columns_;
  const Signaling signaling_;
  const Ordering ordering_;
  const GroupSize group_;
  const std::uint16_t first_round_;
  const std::string sabotage_;
  const std::uint32_t senders_;
  const std::uint32_t subscribers_;
  const std::vector<Parcel> parcels_;              // by device, then local expert
  const std::vector<std::uint32_t> first_parcel_;  // by device
  const FlashmoeLayout at_;
};

}  // namespace orrery::moe::flashmoe
