#include "moe/algorithms/two_level_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::Piece;
using devices::PutHandle;
using devices::Slots;

TwoLevelExchange::TwoLevelExchange(NodeGroups groups, std::uint32_t channels,
                                   std::uint32_t message_parts, std::uint64_t max_slice_rows,
                                   std::uint32_t row_bytes, std::uint64_t row_stride,
                                   Layout& layout)
    : groups_(std::move(groups)),
      parts_(message_parts),
      max_slice_rows_(max_slice_rows),
      row_bytes_(row_bytes),
      row_stride_(row_stride) {
  const std::uint64_t rows = devices() * max_slice_rows;
  outgoing_ = layout.rows(rows, row_stride);
  regrouped_ = flat() ? 0 : layout.rows(rows, row_stride);
  for (std::uint32_t channel = 0; channel < channels; ++channel) {
    Incoming each;
    each.first = flat() ? 0 : layout.rows(rows, row_stride);
    each.last = layout.rows(rows, row_stride);
    for (fabric::Address& flags : each.flags) {
      flags = layout.flat(std::uint64_t{devices()} * parts_ * 4);
    }
    incoming_.push_back(each);
  }
}

emu::Task TwoLevelExchange::exchange(Core& core, std::uint32_t channel, std::uint32_t call,
                                     std::uint32_t slice_rows) const {
  const Incoming& in = incoming_[channel];
  const std::uint32_t group = groups_.group_of(core.rank());
  const std::uint32_t member = groups_.member_of(core.rank());
  co_await core.barrier();
  if (!flat()) {
    core.phase("stride copy by place in node");
    co_await regroup(core, outgoing_, regrouped_, groups_.members(), slice_rows);
  }
  Phase inside{{},
               member,
               groups_.groups(),
               flat() ? outgoing_ : regrouped_,
               flat() ? in.last : in.first,
               in.flags[0],
               flat() ? "all-to-all" : "intra-node"};
  for (std::uint32_t each = 0; each < groups_.members(); ++each) {
    inside.peers.push_back(groups_.device(group, each));
  }
  core.phase(flat() ? "flat all-to-all" : "intra-node all-to-all");
  co_await send(core, inside, call, slice_rows);
  co_await receive(core, inside, call);
  if (flat()) co_return;
  core.phase("stride copy by node");
  co_await regroup(core, in.first, outgoing_, groups_.groups(), slice_rows);
  Phase between{{}, group, groups_.members(), outgoing_, in.last, in.flags[1], "inter-node"};
  for (std::uint32_t each = 0; each < groups_.groups(); ++each) {
    between.peers.push_back(groups_.device(each, member));
  }
  core.phase("inter-node all-to-all");
  co_await send(core, between, call, slice_rows);
  co_await receive(core, between, call);
}

// A transposition of slices: those of `from` lie in rows of `columns`, those of `to` in columns.
// Slices are split over the cores.
emu::Task TwoLevelExchange::regroup(Core& core, fabric::Address from, fabric::Address to,
                                    std::uint32_t columns, std::uint32_t slice_rows) const {
  const Share mine = share(devices(), core.count(), core.index());
  for (std::uint32_t slice = mine.begin; slice < mine.end; ++slice) {
    const std::uint32_t target = slice % columns * (devices() / columns) + slice / columns;
    for (std::uint32_t row = 0; row < slice_rows; ++row) {
      const fabric::Address source = slice_row(from, slice, row);
      core.accept(source, row_bytes_);
      co_await core.move(slice_row(to, target, row), source, row_bytes_);
    }
  }
  co_await core.barrier();
}

// Messages, or parts of them, are dealt to the cores, beginning with the next peer: not all
// devices send to the first one at once.
emu::Task TwoLevelExchange::send(Core& core, const Phase& phase, std::uint32_t call,
                                 std::uint32_t slice_rows) const {
  const auto peers = static_cast<std::uint32_t>(phase.peers.size());
  std::vector<std::pair<PutHandle, std::vector<Piece>>> sent;
  for (std::uint32_t job = core.index(); job < peers * parts_; job += core.count()) {
    const std::uint32_t peer = (phase.mine + 1 + job / parts_) % peers;
    const std::uint32_t part = job % parts_;
    const Share rows = share(phase.slices * slice_rows, parts_, part);
    std::vector<Piece> pieces;
    for (std::uint32_t row = rows.begin; row < rows.end; ++row) {
      const std::uint32_t slice = row / slice_rows;
      const std::uint32_t in_slice = row % slice_rows;
      pieces.push_back({slice_row(phase.to, phase.mine * phase.slices + slice, in_slice),
                        slice_row(phase.from, peer * phase.slices + slice, in_slice), row_bytes_});
    }
    if (!pieces.empty()) {
      const std::span<const Piece> message(pieces);
      const PutHandle handle = co_await core.put(phase.peers[peer], message);
      sent.emplace_back(handle, std::move(pieces));
      co_await core.fence();
    }
    co_await core.store(phase.peers[peer], flag(phase, phase.mine, part), call);
  }
  for (const auto& [handle, pieces] : sent) {
    co_await core.wait_local(handle);
    for (const Piece& piece : pieces) core.discard(piece.from, row_stride_);
  }
}

emu::Task TwoLevelExchange::receive(Core& core, const Phase& phase, std::uint32_t call) const {
  const auto peers = static_cast<std::uint32_t>(phase.peers.size());
  const Share mine = share(peers * parts_, core.count(), core.index());
  const auto writer = [this, &phase, mine](std::uint32_t slot) {
    const std::uint32_t index = mine.begin + slot;
    return fmt::format("device {} ({} message, part {} of {})", phase.peers[index / parts_],
                       phase.name, index % parts_ + 1, parts_);
  };
  const Slots slots{phase.flags + std::uint64_t{mine.begin} * 4, 4, 4, mine.size(), 0};
  const devices::Predicate ready = devices::word_equals(call);
  co_await core.wait_until(slots, ready, writer);
  co_await core.barrier();
}

}  // namespace orrery::moe
