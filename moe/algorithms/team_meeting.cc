#include "moe/algorithms/team_meeting.h"

#include <fmt/format.h>

namespace orrery::moe {

using devices::Core;

emu::Task TeamMeeting::arrive(Core& core, CoreTeam team, std::uint32_t meeting,
                              std::uint32_t call) const {
  const std::uint32_t before = co_await core.fetch_add(counter(meeting), 1);
  if (before + 1 < team.count) co_return;
  core.write(counter(meeting), std::uint32_t{0});
  co_await core.store(core.rank(), flag(meeting), call);
}

emu::Task TeamMeeting::meet(Core& core, CoreTeam team, std::uint32_t meeting,
                            std::uint32_t call) const {
  co_await arrive(core, team, meeting, call);
  co_await wait_for_all(core, meeting, call);
}

emu::Task TeamMeeting::wait_for_all(Core& core, std::uint32_t meeting, std::uint32_t call) const {
  const auto writer = [&core, meeting](std::uint32_t) {
    return fmt::format("device {} (last core at meeting {} of its team)", core.rank(), meeting);
  };
  const devices::Slots slots{flag(meeting), 4, 4, 1, 0};
  const devices::Predicate met = devices::word_equals(call);
  co_await core.wait_until(slots, met, writer);
}

}  // namespace orrery::moe
