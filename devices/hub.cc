#include "devices/hub.h"

#include <algorithm>

#include "emu/errors.h"

namespace orrery::devices {

std::uint32_t DestinationHub::add(const HubRegion& region) {
  const auto number = static_cast<std::uint32_t>(regions_.size());
  regions_.push_back({region, 0});
  for (const fabric::Address name : {region.rows, region.words}) {
    const auto at = std::lower_bound(
        names_.begin(), names_.end(), name,
        [](const Name& each, fabric::Address until) { return each.address < until; });
    names_.insert(at, {name, number});
  }
  at_hand_.assign(std::min<std::size_t>(costs_.entries, regions_.size()), kNone);
  return number;
}

// Packets beyond the first name rows a little further on.
std::uint32_t DestinationHub::region_of(fabric::Address address) const {
  const auto after = std::upper_bound(
      names_.begin(), names_.end(), address,
      [](fabric::Address until, const Name& each) { return until < each.address; });
  if (after == names_.begin()) return kNone;
  const Name& name = *std::prev(after);
  const HubRegion& region = regions_[name.region].is;
  const std::uint64_t bytes = name.address == region.words ? 8 : region.row_bytes;
  return address < name.address + bytes ? name.region : kNone;
}

emu::Time DestinationHub::look_up(std::uint32_t region) {
  if (at_hand_.empty()) return 0;
  std::uint32_t& held = at_hand_[region % at_hand_.size()];
  if (held == region) return 0;
  held = region;
  ++counters_.hub_misses;
  return costs_.miss;
}

emu::Time DestinationHub::take(fabric::Packet& packet, emu::Time now, Place& place) {
  ++counters_.hub_packets;
  emu::Time takes = costs_.service;
  const std::uint32_t named = region_of(packet.address);
  if (named != kNone) {
    takes += look_up(named);
    Region& region = regions_[named];
    const HubRegion& is = region.is;
    Placed& put = placed_[(std::uint64_t{packet.source} << 32) | packet.put];
    place.is_new = put.bytes_left == 0;
    if (place.is_new) put = {std::min(region.used, is.capacity), packet.put_bytes};
    packet.refused = put.row == is.capacity;
    if (place.is_new && !packet.refused) ++region.used;
    if (place.is_new && packet.refused) ++counters_.hub_refused;
    const std::uint32_t word = packet.refused ? is.blocks() : put.row / is.block_rows;
    place.rows_on = put.row * is.row_bytes;
    place.words_on = std::uint64_t{word} * 8;
    packet.address += packet.signal ? place.words_on : place.rows_on;
    put.bytes_left -= packet.bytes;
  }
  free_ = std::max(now, free_) + takes;
  packet.journey.queueing[fabric::Journey::kHub] += free_ - now;
  return free_;
}

}  // namespace orrery::devices
