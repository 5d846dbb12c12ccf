#include "fabric/read_log.h"

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

std::optional<TornRead> ReadLog::completed(Address address, std::uint64_t bytes, const Packet& last,
                                           emu::Time visible) const {
  std::optional<TornRead> torn;
  const Address end = address + bytes;
  for (auto it = first_overlap(claims_, address); it != claims_.end() && it->first < end; ++it) {
    const Claim& claim = it->second;
    if (claim.time <= last.issued || claim.time >= visible) continue;
    if (torn && torn->read <= claim.time) continue;
    torn = TornRead{it->first,   claim.end - it->first, last.source,  last.core,
                    last.issued, visible,               claim.reader, claim.time};
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
