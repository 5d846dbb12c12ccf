// Where the cores of a team meet while the others of the kernel go on, and what tells those that
// they have met.
//
// Every core adds one to a counter of the device; the last one tells the others by a store to its
// own device.
#pragma once

#include <cstdint>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/core_team.h"
#include "moe/layout.h"

namespace orrery::moe {

class TeamMeeting {
 public:
  /// So many meetings in a call, by number.
  TeamMeeting(std::uint32_t meetings, Layout& layout) : words_(layout.flat(meetings * 64ull)) {}

  /// All cores of the team, in each meeting once in a call. `call` counts from 1.
  emu::Task meet(devices::Core& core, CoreTeam team, std::uint32_t meeting,
                 std::uint32_t call) const;
  /// The same for who does not wait for the others.
  emu::Task arrive(devices::Core& core, CoreTeam team, std::uint32_t meeting,
                   std::uint32_t call) const;
  /// Any core: until the team has met, or all of it have arrived.
  emu::Task wait_for_all(devices::Core& core, std::uint32_t meeting, std::uint32_t call) const;

 private:
  // Apart from each other, so that a core that polls one is not woken by the next.
  fabric::Address counter(std::uint32_t meeting) const { return words_ + meeting * 64ull; }
  fabric::Address flag(std::uint32_t meeting) const { return counter(meeting) + 32; }

  fabric::Address words_;
};

}  // namespace orrery::moe
