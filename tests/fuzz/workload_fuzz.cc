// Any bytes as a workload file: either a workload that routes, or one ConfigError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "emu/errors.h"
#include "emu/text_config.h"
#include "moe/gate.h"
#include "moe/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  try {
    moe::Workload workload;
    emu::parse_text(std::string(reinterpret_cast<const char*>(data), size), "fuzz", workload);
    emu::check_ranges(workload, "fuzz");
    moe::check_workload(workload, "fuzz");
    const auto tokens = moe::token_counts(workload, 2, "fuzz");
    if (tokens[0] > 1000 || tokens[1] > 1000) return 0;  // right, but slow
    const moe::RoutingTable table = moe::route(workload, 2, 1, 0);
    for (const std::uint64_t rows : table.counts()) {
      if (rows > 2000 * std::uint64_t{workload.top_k()}) __builtin_trap();
    }
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
