// The barrier of all devices around a kernel that puts into fixed buffers: before it, nobody's
// buffers are in use any more; after it, all rows are where they belong.
//
// Devices meet among those of their own place in all nodes first (rail), then within the node: R
// devices of N nodes need N-1 and then R/N words each, and where several cores tell of what NICs
// put, as many of each. With one group all meet at once. Words hold the number of the call, so none
// is ever cleared.
//
// What cores have put by stores is visible when their acknowledgements are here and all cores have
// met; then one core tells of it. A NIC's acknowledgement need not mean that: there each core that
// may have put tells of its own puts, by its own queue pair.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core.h"
#include "moe/layout.h"
#include "moe/node_groups.h"

namespace orrery::moe {

class RankBarrier {
 public:
  /// `cores`: of a device. `fenced`: a core's word follows its puts by a fence (Core::signal), or
  /// by the order of its queue pair.
  RankBarrier(const NodeGroups& groups, std::uint32_t cores, bool fenced, Layout& layout);

  /// All cores; returns when every device has come to call `call` (from 1). Tells of no puts.
  emu::Task enter(devices::Core& core, std::uint32_t call) const;
  /// All cores. When they meet behind it (in the next kernel, say), all that any core of any device
  /// has put to this one in this call is visible. The first `posting` cores of every device may
  /// have put through NICs. Between two of these everybody must have heard from all its peers, by
  /// enter() or otherwise: words are waited for by their exact value. `flush` false: nobody waits
  /// for acknowledgements (a fault).
  emu::Task leave(devices::Core& core, std::uint32_t call, std::uint32_t posting,
                  bool flush = true) const;

 private:
  enum Point : std::uint32_t { kEnter, kLeave, kPoints };
  struct Stage {
    std::vector<std::uint32_t> peers;
    const char* name;
  };
  std::vector<Stage> stages(std::uint32_t device) const;
  fabric::Address word(Point point, std::uint32_t source, std::uint32_t lane) const {
    return words_ + ((std::uint64_t{point} * devices_ + source) * cores_ + lane) * 4;
  }
  emu::Task meet(devices::Core& core, Point point, std::uint32_t call, std::uint32_t posting) const;

  const NodeGroups groups_;
  const std::uint32_t devices_;
  const std::uint32_t cores_;
  const bool fenced_;
  fabric::Address words_;
};

}  // namespace orrery::moe
