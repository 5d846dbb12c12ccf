// A hub: gives rows that come for a logical destination, such as an expert, their place in memory,
// so that nobody has to count and tell beforehand how many there will be.
//
// A region stands for such a destination: rows of one length in a row, given out in the order in
// which puts come, and behind them a row for what finds no room; and words that count complete
// rows, one for every block of so many, the last for those that found none. A put to a region names
// its first row and its first word; all of its packets go where its first one was told. What is put
// to other addresses passes the hub as it is. Packets are served one by one, as they come.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/costs.h"
#include "devices/counters.h"
#include "emu/flat_map.h"
#include "fabric/packet.h"

namespace orrery::devices {

/// Rows [0, capacity] and words of 8 bytes, of `block_rows` rows each.
struct HubRegion {
  fabric::Address rows = 0;
  std::uint64_t row_bytes = 0;  // from one to the next
  std::uint32_t capacity = 0;
  fabric::Address words = 0;
  std::uint32_t block_rows = 1;

  std::uint32_t blocks() const { return (capacity + block_rows - 1) / block_rows; }
  /// Counts rows of which there was no room for one.
  fabric::Address refused() const { return words + std::uint64_t{blocks()} * 8; }
};

class DestinationHub {
 public:
  DestinationHub(const HubCosts& costs, Counters& counters) : costs_(costs), counters_(counters) {}

  /// A region with nothing in it. Returns its number. Regions do not overlap.
  std::uint32_t add(const HubRegion& region);
  /// All of its rows have been taken and all of its words are zero again.
  void empty(std::uint32_t region) { regions_[region].used = 0; }

  /// Where a put goes.
  struct Place {
    bool is_new = false;         // its first packet
    std::uint64_t rows_on = 0;   // from where the put named: its data,
    std::uint64_t words_on = 0;  // and its word
  };
  /// A packet comes at `now`: gives it its address and marks it if there is no room for its put.
  /// Returns when it is served; says in `place` where its put goes, if that is a region.
  emu::Time take(fabric::Packet& packet, emu::Time now, Place& place);

 private:
  struct Region {
    HubRegion is;
    std::uint32_t used = 0;
  };
  /// Of a put, by its source's number for it: while packets are missing.
  struct Placed {
    std::uint32_t row = 0;
    std::uint32_t bytes_left = 0;
  };

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t region_of(fabric::Address address) const;
  emu::Time look_up(std::uint32_t region);

  const HubCosts& costs_;
  Counters& counters_;
  emu::Time free_ = 0;
  std::vector<Region> regions_;
  std::vector<std::uint32_t> at_hand_;  // by place in the table: the region there
  struct Name {
    fabric::Address address;
    std::uint32_t region;
  };
  std::vector<Name> names_;  // by address
  emu::FlatMap<Placed> placed_;
};

}  // namespace orrery::devices
