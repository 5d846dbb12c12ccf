#include "moe/algorithm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::moe {

namespace {
// The one table that outlives runs: filled before main() by registration lines, read-only
// afterwards.
std::vector<AlgorithmEntry>& table() {
  static std::vector<AlgorithmEntry> entries;
  return entries;
}
}  // namespace

const std::vector<AlgorithmEntry>& algorithms() {
  std::sort(table().begin(), table().end(),
            [](const AlgorithmEntry& a, const AlgorithmEntry& b) { return a.name < b.name; });
  return table();
}

bool register_algorithm(AlgorithmEntry entry) {
  table().push_back(std::move(entry));
  return true;
}

const AlgorithmEntry& find_algorithm(const std::string& name) {
  std::vector<std::string> known;
  for (const AlgorithmEntry& entry : algorithms()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  throw emu::ConfigError(
      "--algorithm", "", name,
      fmt::format("one of {}", fmt::join(known, ", ")) + emu::did_you_mean(name, known));
}

}  // namespace orrery::moe
