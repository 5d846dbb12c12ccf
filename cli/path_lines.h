// A critical path as lines of text: steps of one nature joined, repeated patterns counted, the
// shortest left out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "devices/causal_history.h"
#include "devices/critical_path.h"

namespace orrery::cli {

/// Consecutive steps of a path that are one thing to a reader: a put's journey with the poll that
/// saw it, or what one core did.
struct Stretch {
  std::uint32_t rank = 0;
  std::uint32_t core = 0;
  emu::Time from = 0;
  emu::Time to = 0;
  std::vector<emu::Time> parts;  // by part_names()
  std::uint32_t part = 0;        // of the first step
  bool journey = false;
  devices::PathStep step{};                 // a journey's, for who and since when
  const devices::PutRecord* put = nullptr;  // a journey's, if it is known
};

/// A pattern of stretches and how often it came in a row; `parts` of its stretches are sums.
struct Repeated {
  std::vector<Stretch> pattern;
  std::size_t times = 1;
  bool same_core = true;  // all on the same core

  emu::Time from() const { return pattern.front().from; }
  emu::Time duration = 0;
};

class PathLines {
 public:
  /// `names`: part_names(); `link_classes`: of the topology; `service_core`: puts go through one.
  PathLines(std::vector<std::string> names, std::vector<std::string> link_classes,
            const std::vector<devices::PutRecord>& puts, bool service_core);

  std::vector<Stretch> stretches(const std::vector<devices::PathStep>& steps) const;
  std::vector<Repeated> fold(const std::vector<Stretch>& stretches) const;
  /// At most `lines` lines, the last one about those left out.
  std::string text(const std::vector<devices::PathStep>& steps, std::size_t lines) const;

 private:
  bool alike(const Stretch& a, const Stretch& b) const;
  std::string what(const Stretch& stretch, emu::Time origin) const;
  std::string journey(const Stretch& stretch, emu::Time origin) const;
  std::string hops(const Stretch& stretch) const;
  std::string summary(const Repeated& repeated) const;
  const devices::PutRecord* find(const devices::PathStep& step) const;
  std::uint32_t index(const std::string& name) const;

  const bool service_core_;
  const std::vector<std::string> names_;
  const std::vector<std::string> link_classes_;
  const std::vector<devices::PutRecord>& puts_;
  const std::uint32_t poll_;
  const std::uint32_t flag_wait_;
  const std::uint32_t store_window_;
};

}  // namespace orrery::cli
