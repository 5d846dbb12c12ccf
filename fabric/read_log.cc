#include "fabric/read_log.h"

#include <algorithm>
#include <iterator>

namespace orrery::fabric {

namespace {
// The first range that ends after `address`.
template <typename Map>
auto first_overlap(Map& ranges, Address address) {
  auto it = ranges.upper_bound(address);
  if (it != ranges.begin()) {
    auto before = std::prev(it);
    if (before->second.end > address) return before;
  }
  return it;
}
}  // namespace

void ReadLog::erase(Ranges& ranges, Address address, std::uint64_t bytes) {
  const Address end = address + bytes;
  auto it = first_overlap(ranges, address);
  while (it != ranges.end() && it->first < end) {
    const Address start = it->first;
    const Claim claim = it->second;
    if (start < address) {
      it->second.end = address;
      ++it;
    } else {
      it = ranges.erase(it);
    }
    if (claim.end > end) {
      ranges.emplace(end, claim);
      break;
    }
  }
}

void ReadLog::claim(Address address, std::uint64_t bytes, std::uint32_t reader, emu::Time time) {
  // The usual case, again and again in a loop over iterations: the same range as before.
  const auto known = claims_.find(address);
  if (known != claims_.end() && known->second.end == address + bytes) {
    known->second.time = time;
    known->second.reader = reader;
    return;
  }
  erase(claims_, address, bytes);
  claims_.emplace(address, Claim{address + bytes, time, reader});
}

void ReadLog::claim_in_row(Address row, Address address, std::uint64_t bytes, std::uint32_t reader,
                           emu::Time time) {
  RowClaim& latest = row_claims_[row];
  const Address end = address + bytes;
  if (latest.claim.end != 0 && (latest.begin != address || latest.claim.end != end)) {
    claim(latest.begin, latest.claim.end - latest.begin, latest.claim.reader, latest.claim.time);
  }
  latest = {address, {end, time, reader}};
}

// A claim is false if it was made while the bytes from `shown` on were on their way. Keeps the
// earliest.
void ReadLog::judge(Address shown, Address begin, const Claim& claim, const Packet& packet,
                    emu::Time visible, std::optional<TornRead>& torn) {
  if (claim.time <= packet.issued || claim.time >= visible) return;
  if (torn && torn->read <= claim.time) return;
  torn = TornRead{begin,   claim.end - begin, packet.source, packet.core,           packet.issued,
                  visible, claim.reader,      claim.time,    std::max(begin, shown)};
}

std::optional<TornRead> ReadLog::shown(Address address, std::uint64_t bytes, const Packet& packet,
                                       emu::Time visible) const {
  std::optional<TornRead> torn;
  const Address end = address + bytes;
  for (auto it = first_overlap(claims_, address); it != claims_.end() && it->first < end; ++it) {
    judge(address, it->first, it->second, packet, visible, torn);
  }
  return torn;
}

std::optional<TornRead> ReadLog::shown_in_row(Address row, Address address, std::uint64_t bytes,
                                              const Packet& packet, emu::Time visible) const {
  std::optional<TornRead> torn;
  if (!claims_.empty()) torn = shown(address, bytes, packet, visible);
  const RowClaim* latest = row_claims_.find(row);
  if (latest != nullptr && latest->begin < address + bytes && latest->claim.end > address) {
    judge(address, latest->begin, latest->claim, packet, visible, torn);
  }
  return torn;
}

void ReadLog::discard(Address address, std::uint64_t bytes) {
  erase(discarded_, address, bytes);
  discarded_.emplace(address, Claim{address + bytes, 0, 0});
}

bool ReadLog::is_discarded(Address address, std::uint64_t bytes) const {
  if (discarded_.empty()) return false;
  const auto it = first_overlap(discarded_, address);
  return it != discarded_.end() && it->first < address + bytes;
}

}  // namespace orrery::fabric
