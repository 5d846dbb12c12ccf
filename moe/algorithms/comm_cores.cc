#include "moe/algorithms/comm_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/errors.h"

namespace orrery::moe {

CommCores CommCores::of(const Problem& problem, const Options& options, bool overlaps) {
  constexpr std::uint32_t kCoresPerCommCore = 8;
  const std::uint32_t cores = problem.costs.cores;
  const auto wanted = static_cast<std::uint32_t>(options.number("comm_cores", 0, 1u << 20));
  if (!overlaps) return {cores, 0};
  const std::uint32_t count = wanted > 0 ? wanted : std::max(1u, cores / kCoresPerCommCore);
  if (count < cores) return {count, cores - count};
  throw emu::ConfigError("--set", "algorithm.comm_cores", std::to_string(count),
                         fmt::format("fewer than the device's {} cores", cores));
}

OptionSpec CommCores::option() {
  return {"comm_cores",
          "0",
          "cores that communicate where that overlaps with products, taken from them; 0: an eighth "
          "of the device's",
          {}};
}

}  // namespace orrery::moe
