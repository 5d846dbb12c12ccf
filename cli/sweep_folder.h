// The folder of a sweep, and all that its processes share: finished points, and whose turn it is.
//
//   DIR/sweep.json    what was asked
//   DIR/points.jsonl  a line per finished point, in the order in which they finished
//   DIR/lock          locked while a sweep is at work
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "cli/line_file.h"
#include "cli/lock_file.h"
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
  /// The files that points read, by path, with a digest of each.
  using Inputs = std::map<std::string, std::string>;

  /// Makes or opens `path`. Collective; throws ConfigError on all processes or on none when another
  /// sweep is at work there, when it holds points and `resumption` says nothing of them, when it
  /// belongs to a sweep with other fixed flags, other varied keys or an input of the same path and
  /// other contents, or cannot be written.
  SweepFolder(const emu::ProcessGroup& processes, const std::string& path,
              const SweepRequest& request, const Inputs& inputs, Resumption resumption);

  /// Keys of the points that were finished when the folder was opened; the same on all processes.
  const std::unordered_set<std::string>& finished() const { return finished_; }

  /// 0, 1, 2, …: each number to one caller of all threads and processes.
  std::uint64_t claim();
  /// Adds a finished point (a line, its end included), at once. Throws ConfigError when the disk is
  /// full.
  void append(const std::string& line);
  /// The same for a point that several processes may report: the first one's line counts.
  void append_once(const std::string& key, const std::string& line);

  /// Points that this sweep has added since it was opened, by all its processes.
  std::uint64_t added();
  /// All finished points in the order of the file. Throws ConfigError for a line that is none.
  void for_each_point(const std::function<void(const nlohmann::json&)>& visit) const;

 private:
  class Hold;  // excludes other threads and processes while it lives
  void open_first(const SweepRequest& request, const Inputs& inputs, Resumption resumption);
  void write_request(const SweepRequest& request, const Inputs& inputs, bool begun) const;

  std::string path_;
  std::unique_ptr<LockFile> lock_;
  std::unique_ptr<LineFile> points_;
  std::mutex mutex_;
  std::unordered_set<std::string> finished_;
};

}  // namespace orrery::cli
