#include "cli/data_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {
const std::string kSuffix = ".textproto";

// The first data folder that exists: installed beside the program, then the source tree it was
// built from.
fs::path data_folder(const std::string& folder) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path installed = program.parent_path().parent_path() / "share" / "orrery" / folder;
    if (fs::is_directory(installed, error)) return installed;
  }
  return fs::path(ORRERY_SOURCE_DATA) / folder;
}
}  // namespace

std::vector<std::string> data_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data_folder(folder), error)) {
    if (entry.path().extension() == kSuffix) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_data_file(const std::string& folder, const std::string& name,
                           const std::string& flag) {
  std::error_code error;
  if (name.find('/') != std::string::npos ||
      (name.size() > kSuffix.size() && name.ends_with(kSuffix))) {
    if (!fs::exists(name, error)) throw emu::ConfigError(flag, "", name, "a file that exists");
    return name;
  }
  const fs::path path = data_folder(folder) / (name + kSuffix);
  if (name.empty() || !fs::exists(path, error)) {
    const std::vector<std::string> known = data_names(folder);
    throw emu::ConfigError(flag, "", name,
                           fmt::format("a file, or one of {}{}", fmt::join(known, ", "),
                                       emu::did_you_mean(name, known)));
  }
  return path.string();
}

}  // namespace orrery::cli
