// Who wrote each byte of a device's memory last, and who looked at it since: the happens-before
// checker's picture of a memory. Ranges with the same history are one cell.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "devices/check_log.h"
#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::devices {

/// A moment in one core's program: its `epoch`-th step. Cores are numbered over all devices.
struct Moment {
  std::uint32_t core = 0;
  std::uint32_t epoch = 0;
};

/// Something a core did, as reports tell it.
struct Access {
  Moment moment;
  std::uint32_t place = 0;  // index of (kernel, phase), for the checker
  std::uint32_t iteration = 0;
  emu::Time time = 0;
  Verb verb = Verb::kHost;
};

/// Who wrote a cell: index in the checker's list of that kind.
struct Writer {
  enum Kind : std::uint8_t { kNobody, kCore, kPut, kAtomics };
  Kind kind = kNobody;
  std::uint32_t index = 0;
  bool operator==(const Writer&) const = default;
};

/// A read that later writes must be ordered after.
struct CellRead {
  enum Kind : std::uint8_t {
    kPlain,
    kSource,       // by a put until it has left: index in the checker's puts. A core's puts leave
    kServed,       // in order, so the last one counts; the same by a get
    kWait,         // of a flag; another value may not satisfy the wait
    kGrowingWait,  // of a flag that later values satisfy as well
  };
  Access access;
  Kind kind = kPlain;
  std::uint32_t put = 0;
};

class ShadowMemory {
 public:
  struct Cell {
    fabric::Address end = 0;
    Writer writer;
    std::vector<CellRead> reads;  // since it was written
  };

  /// Calls visit(begin, end, cell) for each part of [address, address + bytes) with one history, in
  /// order; what nobody wrote or read has a default cell.
  template <typename Visit>
  void for_each(fabric::Address address, std::uint64_t bytes, Visit&& visit) const {
    const fabric::Address end = address + bytes;
    static const Cell kEmpty;
    fabric::Address at = address;
    for (auto it = first_after(address); at < end; ++it) {
      if (it == cells_.end() || it->first >= end) {
        visit(at, end, kEmpty);
        return;
      }
      if (it->first > at) visit(at, it->first, kEmpty);
      const fabric::Address until = std::min(end, it->second.end);
      visit(std::max(at, it->first), until, it->second);
      at = until;
    }
  }
  /// The range has new contents.
  void write(fabric::Address address, std::uint64_t bytes, Writer writer);
  /// The range was read. Of reads by one core only the last one of each kind counts.
  void read(fabric::Address address, std::uint64_t bytes, const CellRead& read);
  /// Ranges with a history of their own.
  std::size_t cells() const { return cells_.size(); }

 private:
  using Cells = std::map<fabric::Address, Cell>;
  // The first cell that ends after `address`.
  Cells::const_iterator first_after(fabric::Address address) const {
    auto it = cells_.upper_bound(address);
    if (it != cells_.begin() && std::prev(it)->second.end > address) --it;
    return it;
  }
  void split(fabric::Address at);

  Cells cells_;
};

}  // namespace orrery::devices
