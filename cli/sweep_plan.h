// The points of a sweep: the product of the varied keys' values, or their pairs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/sweep_request.h"

namespace orrery::cli {

class SweepPlan {
 public:
  /// `request.check()` has passed. Throws ConfigError for no axis at all, a point that stands
  /// there twice, more than kMostPoints points, axes of different lengths with zip, and for what
  /// check_axes() finds.
  explicit SweepPlan(const SweepRequest& request);

  /// Points are numbered from 0; the first key varies slowest.
  std::size_t size() const { return size_; }
  const std::vector<Axis>& axes() const { return axes_; }
  bool zip() const { return zip_; }

  /// Which value of each axis point `number` has.
  std::vector<std::size_t> coordinates(std::size_t number) const;
  /// Name and value of each axis at point `number`.
  std::vector<std::pair<std::string, std::string>> varied(std::size_t number) const;
  /// "tokens=8 fabric.atomic_block_bytes=512": no two points have the same.
  std::string key(std::size_t number) const;
  RunOptions options(std::size_t number) const;
  /// The files that the points read, with a digest of each.
  std::map<std::string, std::string> inputs() const { return input_digests(axes_, options(0)); }

 private:
  RunOptions fixed_;
  std::vector<Axis> axes_;
  bool zip_;
  std::size_t size_ = 1;
};

}  // namespace orrery::cli
