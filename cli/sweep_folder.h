// The folder of a sweep, and all that its processes share: finished points, and whose turn it is.
//
//   DIR/sweep.json    what was asked
//   DIR/points.jsonl  a line per finished point, in the order in which they finished
//   DIR/lock          held while a sweep is at work; the kernel releases it, however a process ends
//
// A line is appended by one write under the lock, so that lines of several processes never mix. A
// process that is killed within the write leaves a line without an end: whoever appends next, or
// resumes, cuts it off.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "cli/sweep_request.h"
#include "emu/process_group.h"

namespace orrery::cli {

/// What to do with a folder that holds points already.
struct Resumption {
  bool resume = false;        // keep them; run what is missing
  bool retry_errors = false;  // forget those whose outcome is "error"
};

class SweepFolder {
 public:
  /// Makes or opens `path`. Collective; throws ConfigError on all processes or on none when another
  /// sweep is at work there, when it holds points and `resumption` says nothing of them, when it
  /// belongs to a sweep with other fixed flags or other varied keys, or cannot be written.
  SweepFolder(const emu::ProcessGroup& processes, const std::string& path,
              const SweepRequest& request, Resumption resumption);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  /// Keys of the points that were finished when the folder was opened; the same on all processes.
  const std::unordered_set<std::string>& finished() const { return finished_; }

  /// 0, 1, 2, …: each number to one caller of all threads and processes.
  std::uint64_t claim();
  /// Adds a finished point, at once. Throws ConfigError when the disk is full.
  void append(const std::string& line);

  /// Lines that this sweep (since it was opened) has added, by all processes.
  std::uint64_t added();
  /// All finished points in the order of the file. Throws ConfigError for a line that is none.
  void for_each_point(const std::function<void(const nlohmann::json&)>& visit) const;

 private:
  class Hold;  // excludes other threads and processes while it lives
  void open_first(const SweepRequest& request, Resumption resumption);
  void open_points(bool retry_errors);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string path_;
  std::string points_path_;
  int lock_ = -1;
  int points_ = -1;
  std::mutex mutex_;
  std::unordered_set<std::string> finished_;
  std::uint64_t counted_to_ = 0;  // bytes of the file that added() has looked at
  std::uint64_t added_ = 0;
};

}  // namespace orrery::cli
