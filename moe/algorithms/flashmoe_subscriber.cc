// FlashMoE, subscribers: poll the flags of packets and of returned blocks and tell the scheduler of
// each that has come. A flag of another round is not there yet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "moe/algorithms/flashmoe.h"
#include "moe/share.h"

namespace orrery::moe::flashmoe {

using devices::Core;
using devices::Place;

namespace {

// A flag that is awaited: of a packet, or of a block of returned rows.
struct Flag {
  fabric::Address address;
  bool returned;
  std::uint32_t unit;  // or expert
  std::uint32_t block;
};

}  // namespace

emu::Task Flashmoe::subscriber(Core& core, std::uint32_t iteration) {
  core.phase("subscribe");
  const std::uint32_t self = core.rank();
  const std::uint32_t index = core.index() - first_subscriber();
  const std::uint32_t entries = tokens(self, iteration) * problem_.top_k();
  co_await core.stream(std::uint64_t{entries} * sizeof(std::int32_t));

  std::vector<Flag> flags;
  const std::uint32_t locals = std::max(local_experts(self), 1u);
  const Share packets = share(locals * problem_.devices, subscribers_, index);
  for (std::uint32_t unit = packets.begin; unit < packets.end; ++unit) {
    flags.push_back({at_.packet_flag(set(iteration), unit), false, unit, 0});
  }
  std::vector<std::uint32_t> sent(problem_.placement.experts(), 0);
  for (const std::int32_t id : core.array<std::int32_t>(ids(), entries)) {
    if (id >= 0) ++sent[static_cast<std::uint32_t>(id)];
  }
  std::uint32_t number = 0;
  for (std::uint32_t expert = 0; expert < sent.size(); ++expert) {
    for (std::uint32_t block = 0; block < blocks_of(sent[expert]); ++block) {
      if (number++ % subscribers_ != index) continue;
      flags.push_back({at_.return_flag(expert, block), true, expert, block});
    }
  }

  const std::uint16_t wanted = round(iteration);
  std::array<Place, devices::WaitReadyOperation::kMostPlaces> places;
  const auto is_there = [&core, &places, wanted](std::uint32_t place) {
    std::uint16_t held;
    std::memcpy(&held, core.probe(places[place].address, sizeof(Announcement)).data(),
                sizeof(held));
    return held == wanted;
  };
  const auto writer = [this, &flags, self](std::uint32_t place) {
    const Flag& flag = flags[place];
    if (flag.returned) {
      return fmt::format("device {} (block {} of expert {})", problem_.placement.owner(flag.unit),
                         flag.block, flag.unit);
    }
    return fmt::format("device {} (packet for expert {})", at_.source_of(flag.unit),
                       problem_.placement.begin(self) + at_.local_of(flag.unit));
  };
  std::uint32_t packets_left = packets.size();
  if (packets_left == 0) co_await post(core, 0, note(iteration, Note::kPacketsEnd));
  std::uint32_t next = 0;
  while (!flags.empty()) {
    const std::size_t count = std::min(flags.size(), places.size());
    for (std::size_t i = 0; i < count; ++i) places[i] = {flags[i].address, sizeof(Announcement)};
    if (next >= count) next = 0;
    const std::uint64_t seen =
        co_await core.wait_any(std::span<const Place>(places.data(), count), is_there,
                               core.costs().poll, "a flag of this round", writer, next);
    next = static_cast<std::uint32_t>(std::countr_zero(seen));
    const Flag flag = flags[next];
    flags.erase(flags.begin() + next);
    core.accept(flag.address, sizeof(Announcement));
    if (flag.returned) {
      co_await post(core, 0, note(iteration, Note::kReturned, flag.unit, flag.block));
      continue;
    }
    const std::uint32_t blocks = core.load<Announcement>(flag.address).blocks;
    const Note packet = note(iteration, Note::kPacket, flag.unit, blocks);
    if (blocks > 0) co_await post(core, 0, packet);
    if (signaling_ == Signaling::kDecoupled && !is_near(self, at_.source_of(flag.unit))) {
      co_await post(core, 1 + sender_of(group_of_unit(self, flag.unit)), packet);
    }
    if (--packets_left == 0) co_await post(core, 0, note(iteration, Note::kPacketsEnd));
  }
  co_await post(core, 0, note(iteration, Note::kEnd));
}

}  // namespace orrery::moe::flashmoe
