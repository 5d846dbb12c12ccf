// How a kernel's cores are dealt where communication and products overlap.
#pragma once

#include <cstdint>
#include <string>

#include "moe/core_team.h"
#include "moe/options.h"
#include "moe/problem.h"

namespace orrery::moe {

/// The first cores communicate, the others multiply.
class CommCores {
 public:
  /// Option `comm_cores` of a run; 0: an eighth of the device's, assumed, 1/16 to 1/4: what
  /// collectives occupy (16 to 32 of the 132 SMs of an H100, by their number of channels). Where
  /// nothing overlaps all cores do the one, then the other. Throws ConfigError if none are left for
  /// products.
  static CommCores of(const Problem& problem, const Options& options, bool overlaps = true);
  static OptionSpec option();

  std::uint32_t count() const { return comm_; }
  CoreTeam comm() const { return {0, comm_}; }
  CoreTeam compute() const {
    return compute_ == 0 ? CoreTeam{0, comm_} : CoreTeam{comm_, compute_};
  }

 private:
  CommCores(std::uint32_t comm, std::uint32_t compute) : comm_(comm), compute_(compute) {}

  std::uint32_t comm_;
  std::uint32_t compute_;
};

}  // namespace orrery::moe
