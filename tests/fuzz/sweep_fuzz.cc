// Any bytes as a sweep file, and as a line of points.jsonl: a plan whose points all have a name, or
// one ConfigError.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/point_record.h"
#include "cli/sweep_plan.h"
#include "cli/value_list.h"
#include "emu/errors.h"
#include "emu/text_config.h"

namespace {

using namespace orrery;

// Plans within the limits may still take seconds.
bool is_small(const cli::SweepRequest& request) {
  return std::all_of(request.axes.begin(), request.axes.end(),
                     [](const cli::Axis& axis) { return axis.values.size() <= 100; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    cli::Sweep sweep;
    emu::parse_text(text, "fuzz", sweep);
    const cli::SweepRequest request = cli::to_request(sweep, "fuzz");
    if (is_small(request)) {
      const cli::SweepPlan plan(request);
      if (plan.size() == 0 || plan.size() > cli::kMostPoints) std::abort();
      if (plan.key(plan.size() - 1).empty()) std::abort();
    }
  } catch (const emu::ConfigError&) {
  }
  try {
    if (cli::parse_values("fuzz", "key", text).empty()) std::abort();
  } catch (const emu::ConfigError&) {
  }
  try {
    cli::parse_line(text, "fuzz");
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
