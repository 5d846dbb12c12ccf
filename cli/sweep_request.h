// What a sweep is asked to do, as the command line or a sweep file says it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/sweep_file.pb.h"
#include "cli/varied_key.h"

namespace orrery::cli {

/// Keys are those of cli/varied_key.h; what is not given is not there.
struct SweepRequest {
  std::vector<std::pair<std::string, std::string>> fixed;  // the same for all points
  std::vector<Axis> axes;
  bool zip = false;
  std::vector<std::string> metrics;

  /// Adds "key=values", as --vary takes it. Throws ConfigError.
  void add_axis(const std::string& where, const std::string& text);
  /// Adds "path.to.field=value", as --set takes it. Throws ConfigError.
  void add_setting(const std::string& where, const std::string& text);
  /// Throws ConfigError if a key stands there twice, or is both fixed and varied.
  void check(const std::string& where) const;
};

/// The request in a sweep file. Throws ConfigError.
SweepRequest load_request(const std::string& path);
/// The same for a message that was read already; `where` names its file in errors.
SweepRequest to_request(const Sweep& sweep, const std::string& where);

/// `base` with everything that `over` says in place of what `base` says of the same keys. A key
/// that both vary keeps its place in `base`.
SweepRequest merge(const SweepRequest& base, const SweepRequest& over);

}  // namespace orrery::cli
