// Any bytes as a result or a sweep: a ConfigError, or something that compares with itself, prints
// and moved nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/comparison.h"
#include "cli/comparison_json.h"
#include "cli/comparison_table.h"
#include "emu/errors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const cli::ResultFile file = cli::parse_result_file(text, "fuzz", text);
    const cli::Comparison comparison = cli::compare({file, file});
    for (const cli::ResultPair& pair : comparison.pairs()) {
      if (!pair.same_latencies() || !pair.differing_inputs().empty()) std::abort();
    }
    cli::to_table(comparison);
    cli::to_json(comparison);
    if (file.is_sweep) cli::to_table(cli::compare({file}));
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
