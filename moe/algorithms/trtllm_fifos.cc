#include "moe/algorithms/trtllm_fifos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "emu/errors.h"

namespace orrery::moe {

using devices::Core;
using devices::Place;
using fabric::Address;

namespace {

constexpr std::uint32_t kMostLanes = devices::WaitReadyOperation::kMostPlaces;

std::uint64_t word_at(Core& core, Address address) {
  std::uint64_t value = 0;
  std::memcpy(&value, core.probe(address, sizeof(value)).data(), sizeof(value));
  return value;
}

}  // namespace

TrtllmFifos::TrtllmFifos(Layout& layout, const Sizes& sizes, Ll128 wire, bool control, Fault fault,
                         std::uint64_t row_stride, std::vector<fabric::Carried::Range> row_carried,
                         const char* name)
    : sizes_(sizes),
      wire_(std::move(wire)),
      fault_(fault),
      name_(name),
      channels_(sizes.channels > 0 ? sizes.channels
                                   : std::max(sizes.cores / 2 / (2 * groups()), 1u)),
      per_entry_(std::max(sizes.entry_bytes / wire_.record_bytes(), 1u)),
      stride_(align_up(wire_.record_bytes(), 512)),
      row_stride_(row_stride) {
  if (lanes_per_core() > kMostLanes) {
    throw emu::ConfigError("--topology", "device.cores", fmt::format("{}", sizes.cores),
                           fmt::format("cores for {} devices, 64 warps on each", sizes.devices));
  }
  const std::uint64_t fifos = std::uint64_t{sizes.devices} * channels_;
  const std::uint64_t lanes = std::uint64_t{sizes.cores} * lanes_per_core();
  words_ = layout.flat(fifos * kWords * 8);
  if (control) layout.carry_only(std::move(row_carried));
  buffers_ = layout.rows(lanes, row_stride_);
  if (control) layout.carry_only(wire_.carried());
  fifos_ = layout.rows(fifos * sizes.entries * per_entry_, stride_);
  packed_ = layout.rows(2 * lanes, stride_);
}

std::uint32_t TrtllmFifos::workers() const { return std::min(blocks(), sizes_.cores); }

std::uint32_t TrtllmFifos::lanes_per_core() const {
  const std::uint32_t warps = std::min(kWarps, sizes_.devices);
  return (blocks() + workers() - 1) / workers() * warps;
}

void TrtllmFifos::set_up(fabric::Memory& memory) const {
  for (std::uint32_t peer = 0; peer < sizes_.devices; ++peer) {
    for (std::uint32_t channel = 0; channel < channels_; ++channel) {
      memory.store(word(kHead, peer, channel), std::uint64_t{0});
      memory.store(word(kTail, peer, channel), std::uint64_t{0});
    }
  }
}

// Senders' blocks come before those of receivers; with fewer cores than blocks each core has
// several, whose warps take turns.
std::vector<TrtllmFifos::Lane> TrtllmFifos::lanes(Core& core, const Rows& rows) const {
  std::vector<Lane> mine;
  for (std::uint32_t block = core.index(); block < blocks(); block += workers()) {
    const bool sends = block < blocks() / 2;
    const std::uint32_t channel = block % (blocks() / 2) / groups();
    const std::uint32_t first = block % groups() * kWarps;
    for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
      // Warps go on side by side: not all blocks of all devices turn to one peer first.
      const std::uint32_t peer = first + (warp + core.rank() + channel) % kWarps;
      if (peer >= sizes_.devices) continue;
      const std::uint32_t all = sends ? rows.to(core, peer) : rows.from(core, peer);
      const std::uint32_t of_channel = all / channels_ + (channel < all % channels_ ? 1 : 0);
      if (of_channel == 0) continue;
      const auto entry = core.load<std::uint64_t>(word(sends ? kHead : kTail, peer, channel));
      Lane lane{sends, peer, channel, of_channel, entry};
      lane.number = static_cast<std::uint32_t>(mine.size());
      mine.push_back(lane);
    }
  }
  return mine;
}

// A row to send has room in its entry; one to receive is all there.
bool TrtllmFifos::is_ready(Core& core, const Lane& lane) const {
  if (lane.sends) {
    return fault_ == Fault::kIgnoreCredits ||
           entry_of(lane) < word_at(core, word(kTaken, lane.peer, lane.channel)) + sizes_.entries;
  }
  const std::uint32_t first = fault_ == Fault::kLastLine ? wire_.lines() - 1 : 0;
  return wire_.arrived(core, record_of(lane, lane.peer), entry_of(lane) + 1, first);
}

std::string TrtllmFifos::writer(const Lane& lane) const {
  return fmt::format("device {} ({} {} of {} {} channel {} of {})", lane.peer,
                     lane.sends ? "takes the entry before row" : "row", lane.next, lane.rows,
                     lane.sends ? "to it through" : "through", lane.channel, name_);
}

emu::Task TrtllmFifos::await_any(Core& core, const std::vector<Lane*>& lanes) const {
  std::vector<std::pair<Place, const Lane*>> sorted;
  for (const Lane* lane : lanes) {
    sorted.emplace_back(lane->sends ? Place{word(kTaken, lane->peer, lane->channel), 8}
                                    : Place{record_of(*lane, lane->peer), wire_.record_bytes()},
                        lane);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first.address < b.first.address; });
  std::vector<Place> places;
  for (const auto& [place, lane] : sorted) places.push_back(place);
  const auto ready = [&](std::uint32_t place) { return is_ready(core, *sorted[place].second); };
  const auto who = [&](std::uint32_t) {
    constexpr std::size_t kMost = 16;
    std::string text;
    for (std::size_t i = 0; i < std::min(sorted.size(), kMost); ++i) {
      text += (i > 0 ? " or expected writer: " : "") + writer(*sorted[i].second);
    }
    return sorted.size() > kMost ? text + " or others" : text;
  };
  const emu::Time read = core.costs().poll;
  const std::span<const Place> all = places;
  auto any = core.wait_any(all, ready, read, "a row's flags in all lines, or a free entry", who);
  any.make_growing();
  co_await any;
}

emu::Task TrtllmFifos::run(Core& core, Rows& rows, std::uint64_t stride) const {
  if (core.index() >= workers()) co_return;
  std::vector<Lane> mine = lanes(core, rows);
  for (;;) {
    std::vector<Lane*> open;
    for (Lane& lane : mine) {
      if (lane.next < lane.rows) open.push_back(&lane);
    }
    if (open.empty()) break;
    std::vector<Lane*> to_send;
    std::vector<Lane*> to_receive;
    co_await await_any(core, open);
    for (Lane* lane : open) {
      if (is_ready(core, *lane)) (lane->sends ? to_send : to_receive).push_back(lane);
    }
    if (!to_send.empty()) co_await send(core, rows, stride, to_send);
    if (!to_receive.empty()) co_await receive(core, rows, to_receive);
  }
  for (Lane& lane : mine) {
    if (!lane.sends) continue;
    for (const devices::PutHandle& handle : lane.leaving) co_await core.wait_local(handle);
    core.write(word(kHead, lane.peer, lane.channel),
               lane.entry + (lane.rows + per_entry_ - 1) / per_entry_);
    for (lane.next = 0; lane.next < 2; ++lane.next) {
      core.discard(packed(core.index(), lane), stride_);
    }
  }
}

emu::Task TrtllmFifos::send(Core& core, Rows& rows, std::uint64_t stride,
                            const std::vector<Lane*>& lanes) const {
  core.phase("send");
  co_await core.stream(lanes.size() * std::uint64_t{wire_.row_bytes()});
  for (Lane* lane : lanes) {
    if (lane->next % per_entry_ == 0) co_await wait_free(core, *lane);
    co_await core.wait_local(lane->leaving[lane->next % 2]);
    const Address row = rows.outgoing(core, lane->peer, row_of(*lane), buffer(core.index(), *lane));
    wire_.pack(core, packed(core.index(), *lane), row, entry_of(*lane) + 1);
    core.discard(row, stride);
  }
  co_await core.compute(core.costs().vector(lanes.size() * wire_.record_bytes() / 4));
  for (Lane* lane : lanes) {
    const Address from = packed(core.index(), *lane);
    const Address to = record_of(*lane, core.rank());
    const std::uint32_t turn = lane->next++ % 2;
    const bool dropped = fault_ == Fault::kDropRow && core.rank() == 0 && lane->channel == 0;
    if (dropped && lane->next == 1) continue;
    lane->leaving[turn] = co_await core.put(lane->peer, to, from, wire_.record_bytes());
  }
}

// What is_ready() saw, as what this core goes on by.
emu::Task TrtllmFifos::wait_free(Core& core, const Lane& lane) const {
  if (entry_of(lane) < sizes_.entries || fault_ == Fault::kIgnoreCredits) co_return;
  const auto who = [&](std::uint32_t) { return writer(lane); };
  const devices::Slots taken{word(kTaken, lane.peer, lane.channel)};
  const devices::Predicate free =
      devices::word_at_least(static_cast<std::uint32_t>(entry_of(lane) - sizes_.entries + 1));
  co_await core.wait_until(taken, free, who);
}

emu::Task TrtllmFifos::receive(Core& core, Rows& rows, const std::vector<Lane*>& lanes) const {
  core.phase("receive");
  co_await core.stream(lanes.size() * std::uint64_t{wire_.record_bytes()});
  for (Lane* lane : lanes) {
    const Address record = record_of(*lane, lane->peer);
    wire_.unpack(core, rows.incoming(core, lane->peer, row_of(*lane)), record);
    core.discard(record, stride_);
  }
  co_await core.compute(core.costs().vector(lanes.size() * wire_.record_bytes() / 4));
  co_await core.stream(lanes.size() * std::uint64_t{wire_.row_bytes()});
  for (Lane* lane : lanes) {
    ++lane->next;
    if (lane->next % per_entry_ == 0 || lane->next == lane->rows) co_await give_back(core, *lane);
  }
}

// The entry before the lane's next row has been taken.
emu::Task TrtllmFifos::give_back(Core& core, Lane& lane) const {
  const std::uint64_t taken = lane.entry + (lane.next + per_entry_ - 1) / per_entry_;
  core.write(word(kTail, lane.peer, lane.channel), taken);
  if (fault_ == Fault::kDropCredit && core.rank() == 0) co_return;
  const std::uint64_t one = 1;
  co_await core.wait_complete(lane.leaving[0]);
  lane.leaving[0] =
      co_await core.atomic_add(lane.peer, word(kTaken, core.rank(), lane.channel), one);
}

}  // namespace orrery::moe
