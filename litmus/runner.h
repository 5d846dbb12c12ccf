// Runs litmus tests on one machine, many times, and counts what was seen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/machine.h"
#include "fabric/wiring.h"
#include "litmus/program.h"

namespace orrery::litmus {

/// What a run is called: the same seed gives the same run.
struct RunId {
  std::uint64_t seed = 0;
  bool adversary = false;
};

struct OutcomeCount {
  std::uint64_t plain = 0;      // without adversary
  std::uint64_t adversary = 0;  // with
  RunId first;                  // a run that saw it, if any did
  std::uint64_t total() const { return plain + adversary; }
};

struct Tally {
  const Program* program = nullptr;
  Verdict verdict;
  std::string skipped;  // why the machine cannot run it; empty if it can
  std::vector<OutcomeCount> outcomes;
  bool forbidden_seen() const;
};

/// Litmus tests on one machine.
class Runner {
 public:
  /// `machine` outlives the runner; `where` stands for its file in errors. Each program has its
  /// window and its time by its place in `programs`. Throws ConfigError if the placement does not
  /// fit, or has devices of one scale-up domain beside devices of others: what is promised is
  /// either the scale-up network's or that of the NICs.
  Runner(const devices::Machine& machine, const std::string& where,
         std::vector<const Program*> programs, const std::string& placement);

  /// One run: all programs, one after the other, each from a silent fabric.
  struct Run {
    RunId id;
    std::vector<int> outcomes;  // by program; Scene::kNothing where the machine is too small for it
    std::string hang;           // the report, if a program never ended
  };
  Run run(RunId id) const;

  /// What the devices of the placement see of the fabric.
  const fabric::Fabric& fabric() const { return fabric_; }

  /// The programs before any run: verdicts, and why some are left out.
  std::vector<Tally> tallies() const;

 private:
  bool fits(const Program& program) const;

  const devices::Machine& machine_;
  const std::string where_;
  const std::vector<const Program*> programs_;
  const std::string placement_;
  const std::shared_ptr<const fabric::Wiring> wiring_;
  const std::uint32_t ranks_;  // of the largest program, or all that the topology has
  const fabric::Fabric fabric_;
};

/// Adds a run's outcomes.
void count(std::vector<Tally>& tallies, const Runner::Run& run);

}  // namespace orrery::litmus
