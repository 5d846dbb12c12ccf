// What --vary can vary: the flags of a run by their names, and every path that --set takes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run_options.h"

namespace orrery::cli {

/// A varied key and its values, as text.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// True if `key` is a path for --set: fabric., device., workload. or algorithm.
bool is_setting(const std::string& key);

/// Names of the flags that can be varied, without their dashes.
std::vector<std::string> varied_flags();

/// Gives the flag or path `key` the text `value` in `options`. Throws ConfigError (naming `where`)
/// for a key that is neither, and for a value of a switch that is not true or false.
void set_key(RunOptions& options, const std::string& where, const std::string& key,
             const std::string& value);

/// A digest of the file's contents (of nothing, if it cannot be read).
std::string file_digest(const std::string& path);

/// The files behind all topologies and workloads of a sweep (recorded traces too), each with a
/// digest of its contents. `options` is the sweep's first point.
std::map<std::string, std::string> input_digests(const std::vector<Axis>& axes,
                                                 const RunOptions& options);

/// Throws ConfigError for what is wrong with an axis by itself, without any run: an unknown key; a
/// flag's value of the wrong kind; a path or value that none of the sweep's topologies, workloads
/// or algorithms takes. `options` is the sweep's first point.
void check_axes(const std::vector<Axis>& axes, const RunOptions& options, const std::string& where);

}  // namespace orrery::cli
