// Where topologies, workloads and suites live: beside an installed program, or in the source tree.
#pragma once

#include <string>
#include <vector>

namespace orrery::cli {

/// The file behind NAME|FILE of `folder` ("topologies", "workloads"): a path if it has a slash or
/// the suffix .textproto, else NAME.textproto in the shipped folder. Throws ConfigError (naming
/// `flag`, listing the known names) if there is none.
std::string find_data_file(const std::string& folder, const std::string& name,
                           const std::string& flag);

/// Names of the shipped files of `folder`, sorted.
std::vector<std::string> data_names(const std::string& folder);

}  // namespace orrery::cli
