// The order of a sweep's values and points: the lines of points.jsonl come in that of finishing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/sweep.pb.h"

namespace orrery::cli {

/// Values in the order in which they were asked for, if that is known; else numbers by size, then
/// words by the alphabet.
class SweepOrder {
 public:
  SweepOrder() = default;
  /// As sweep.json says: {"vary": [{"key": …, "values": […]}]}. Anything else says nothing.
  explicit SweepOrder(const std::string& sweep_json);

  bool is_before(const std::string& key, const std::string& a, const std::string& b) const;
  /// By their values, the first key slowest.
  bool is_before(const PointRecord& a, const PointRecord& b) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;  // by key
};

}  // namespace orrery::cli
