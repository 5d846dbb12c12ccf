#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "moe/algorithms/moe_hub.h"

namespace orrery::moe {

using devices::Core;

std::string MoeHub::late_sources(Core& core, std::uint32_t half, std::uint32_t local) const {
  const fabric::Memory& memory = core.memory();
  const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
  std::vector<std::uint32_t> missing(problem_.devices);
  std::set<std::uint32_t> late;
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    const auto end = memory.load<std::uint32_t>(at_.ended(half, local, source));
    if (end == 0) late.insert(source);
    missing[source] = end - 1;
  }
  if (!late.empty()) {
    return fmt::format("device {} (END of its rows for expert {})", fmt::join(late, ", device "),
                       expert);
  }
  // Places are given out without gaps.
  std::uint64_t rows = 0;
  for (std::uint32_t block = 0; block < at_.blocks(); ++block) {
    rows += memory.load<std::uint64_t>(at_.word(half, local, block));
  }
  for (std::uint32_t row = 0; row < rows; ++row) {
    --missing[memory.load<Name>(name_of(at_.row(half, local, row))).source];
  }
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    if (missing[source] > 0) late.insert(source);
  }
  return fmt::format("device {} (rows for expert {})", fmt::join(late, ", device "), expert);
}

// The owners of a token's experts.
std::string MoeHub::late_experts(Core& core, std::uint32_t token) const {
  const fabric::Memory& memory = core.memory();
  std::set<std::uint32_t> owners;
  for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
    const auto id =
        memory.load<std::int32_t>(ids() + (std::uint64_t{token} * problem_.top_k() + k) * 4);
    if (id >= 0) owners.insert(problem_.placement.owner(static_cast<std::uint32_t>(id)));
  }
  std::string text =
      fmt::format("device {} (experts of token {})", fmt::join(owners, ", device "), token);
  if (core.refused() > 0) {
    text += fmt::format("; {} rows of this core were refused: a region holds {}", core.refused(),
                        at_.region_rows());
  }
  return text;
}

}  // namespace orrery::moe
