#include "cli/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "emu/errors.h"

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

// Devices, pipes and links (/dev/stdout) are written in place; a file beside itself and then
// renamed.
bool in_place(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status);
}

std::string beside(const std::string& path) { return path + ".part"; }

// The reason why `path` cannot be written, or nothing.
std::string obstacle(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return "a directory";
  if (in_place(path)) return {};
  if (!std::ofstream(beside(path), std::ios::app)) return std::strerror(errno);
  fs::remove(beside(path), error);
  return {};
}

}  // namespace

OutputFile::OutputFile(const emu::ProcessGroup& processes, const std::string& flag,
                       const std::string& path)
    : flag_(flag), path_(path) {
  if (path_.empty()) return;
  const std::string problem = processes.rank() == 0 ? obstacle(path_) : "";
  if (processes.max(problem.empty() ? 0 : 1) != 0) {
    throw emu::ConfigError(flag_, "", path_, "a file that can be written, not this: " + problem);
  }
}

void OutputFile::write(const std::string& text) const {
  write([&text](std::ostream& out) { out << text; });
}

void OutputFile::write(const std::function<void(std::ostream&)>& fill) const {
  if (path_.empty()) return;
  const std::string target = in_place(path_) ? path_ : beside(path_);
  std::ofstream out(target, std::ios::trunc);
  fill(out);
  out.close();
  if (!out || (target != path_ && std::rename(target.c_str(), path_.c_str()) != 0)) {
    throw emu::ConfigError(
        flag_, "", path_,
        std::string("a file that can be written, not this: ") + std::strerror(errno));
  }
}

}  // namespace orrery::cli
