// What litmus programs saw on some fabrics, as a table for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "litmus/runner.h"

namespace orrery::cli {

/// The tallies of one fabric.
struct LitmusFabric {
  std::string name;  // as on the command line
  std::vector<std::string> promises;
  std::vector<litmus::Tally> tallies;
};

struct LitmusReport {
  std::uint64_t seed = 1;             // of the first run
  std::uint64_t runs = 0;             // without the adversary, and as many with it
  std::vector<std::string> settings;  // as on the command line
  bool all_programs = true;           // or those of the first fabric's tallies
  std::vector<LitmusFabric> fabrics;  // all with the same programs
};

/// A table of outcomes per program, a column per fabric, with the rules behind it.
std::string to_table(const LitmusReport& report);
std::string to_json(const LitmusReport& report);

/// A line per forbidden outcome that was seen, with the command that replays it; empty if none was.
std::vector<std::string> violations(const LitmusReport& report);

/// All programs, with what they ask and the outcomes that they tell apart.
std::string litmus_list();

}  // namespace orrery::cli
