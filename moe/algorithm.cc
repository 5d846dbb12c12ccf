#include "moe/algorithm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::moe {

namespace {
// The one table that outlives runs: filled, sorted by name, before main() by registration lines and
// by load_plugin(), read-only otherwise.
std::vector<AlgorithmEntry>& table() {
  static std::vector<AlgorithmEntry> entries;
  return entries;
}

struct Registering {
  std::string abi = kAbi;
  Registration so_far;
};
Registering& registering() {
  static Registering state;
  return state;
}

void add(AlgorithmEntry entry) {
  const auto at = std::lower_bound(
      table().begin(), table().end(), entry.name,
      [](const AlgorithmEntry& each, const std::string& name) { return each.name < name; });
  if (at != table().end() && at->name == entry.name) {
    throw emu::ConfigError(
        fmt::format("a name that is not taken: there is an algorithm '{}' already", entry.name));
  }
  table().insert(at, std::move(entry));
}
}  // namespace

const std::vector<AlgorithmEntry>& algorithms() { return table(); }

bool register_algorithm(const char* abi, AlgorithmEntry (*describe)()) noexcept {
  std::string problem;
  try {
    if (abi != registering().abi) {
      const std::string other = std::string_view(abi) == kAbi ? "a source tree" : abi;
      throw emu::ConfigError(fmt::format(
          "a plug-in built against this installation ({}); this one was built against {}: build it "
          "again",
          registering().abi, other));
    }
    add(describe());
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "a registration line without errors";
  }
  if (!problem.empty() && registering().abi == kAbi) {
    fmt::print(stderr, "orrery: a built-in algorithm, expected {}\n", problem);
    std::_Exit(1);  // a mistake in the program itself; nobody could run that algorithm
  }
  Registration& registration = registering().so_far;
  ++registration.lines;
  if (registration.refused.empty()) registration.refused = problem;
  return problem.empty();
}

void begin_registration(const std::string& stamp) { registering() = {stamp, {}}; }

Registration end_registration() { return std::exchange(registering(), Registering{}).so_far; }

std::uint64_t Algorithm::touched_bytes(std::uint32_t /*device*/) const {
  std::uint64_t bytes = 0;
  for (const fabric::Region& region : layout().regions()) bytes += region.bytes;
  return bytes;
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
