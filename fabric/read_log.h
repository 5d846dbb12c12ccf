// Which ranges of a device's memory were read as complete, and when: the truth that claims are held
// against.
//
// A reader says "these bytes are complete" (consume, accept). The claim is false when some of them
// belong to a put that had been issued by then and were not visible yet. The bytes themselves find
// out when they become visible: the only moment at which one logical process knows both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emu/flat_map.h"
#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::fabric {

struct TornRead {
  Address address;
  std::uint64_t bytes;
  NodeId writer;
  std::uint32_t writer_core;
  emu::Time issued;
  emu::Time visible;
  std::uint32_t reader_core;
  emu::Time read;
  Address missing;  // the first byte of the claim that was not visible
};

class ReadLog {
 public:
  /// Core `reader` takes [address, address + bytes) as complete at `time`.
  void claim(Address address, std::uint64_t bytes, std::uint32_t reader, emu::Time time);

  /// The same for a range inside the row that begins at `row`: nearly always the same range each
  /// time, and then a look-up in a table instead of a search.
  void claim_in_row(Address row, Address address, std::uint64_t bytes, std::uint32_t reader,
                    emu::Time time);

  /// [address, address + bytes), put there by `packet`, becomes visible at `visible`. The earliest
  /// false claim on it, if any.
  std::optional<TornRead> shown(Address address, std::uint64_t bytes, const Packet& packet,
                                emu::Time visible) const;
  /// The same inside the row that begins at `row`.
  std::optional<TornRead> shown_in_row(Address row, Address address, std::uint64_t bytes,
                                       const Packet& packet, emu::Time visible) const;

  /// The range's contents are given up: reading it is an error until it is written again.
  void discard(Address address, std::uint64_t bytes);
  /// True if a part of the range was discarded and not written since.
  bool is_discarded(Address address, std::uint64_t bytes) const;
  /// New contents: the range may be read again.
  void written(Address address, std::uint64_t bytes) {
    if (!discarded_.empty()) erase(discarded_, address, bytes);
  }

 private:
  struct Claim {
    Address end;
    emu::Time time;
    std::uint32_t reader;
  };
  using Ranges = std::map<Address, Claim>;
  static void erase(Ranges& ranges, Address address, std::uint64_t bytes);

  struct RowClaim {
    Address begin = 0;
    Claim claim{};
  };
  static void judge(Address shown, Address begin, const Claim& claim, const Packet& packet,
                    emu::Time visible, std::optional<TornRead>& torn);

  Ranges claims_;
  emu::FlatMap<RowClaim>
      row_claims_;  // the latest of each row; older ones with other ranges in claims_
  Ranges discarded_;
};

}  // namespace orrery::fabric
