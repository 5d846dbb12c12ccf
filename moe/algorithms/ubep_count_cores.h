// How many cores count while the others send: the linear cost model of UBEP (arXiv 2607.06202,
// appendix A; the terms are those of the notes on algorithms 3.6, from a device's own costs).
#pragma once

#include <cstdint>

#include "devices/costs.h"

namespace orrery::moe::ubep {

/// Vector passes that count one expert's entries, or find them: subtract, abs, min with 1, sum.
inline constexpr int kCountPasses = 4;

struct DispatchSize {
  std::uint32_t cores = 1;
  std::uint32_t ranks = 1;
  std::uint32_t experts = 1;        // of all devices
  std::uint32_t local_experts = 1;  // of one
  std::uint32_t entries = 0;        // of one device
  std::uint32_t slot_bytes = 0;     // that an entry's put carries
  emu::Time entry_time = 0;         // a core's own, for one entry
  emu::Time round_trip = 0;         // of a put and its acknowledgement
};

/// Time for `senders` cores to send all entries. Half of a device's cores fill its port (the same
/// paper's figure 3b), so more of them help only as far as their own time is what limits.
emu::Time send_time(const devices::Costs& costs, const DispatchSize& size, std::uint32_t senders);
/// Time for `counters` cores to count all experts, put and poll the statuses, exchange their sums
/// and write every core its copy.
emu::Time count_time(const devices::Costs& costs, const DispatchSize& size, std::uint32_t counters);
/// The least number of counting cores, from 1 to all but one, at which the slower group is as fast
/// as it can be. 1 on a device of one core, which does both.
std::uint32_t count_cores(const devices::Costs& costs, const DispatchSize& size);

}  // namespace orrery::moe::ubep
