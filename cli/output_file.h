// A file that a command writes at its end: checked before any work, and never seen half-written.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "emu/process_group.h"

namespace orrery::cli {

class OutputFile {
 public:
  /// No file if `path` is empty. Rank 0 tries whether it can be written, without changing it.
  /// Collective; throws ConfigError (naming `flag`) on all processes or on none.
  OutputFile(const emu::ProcessGroup& processes, const std::string& flag, const std::string& path);

  bool wanted() const { return !path_.empty(); }
  /// At rank 0 alone. Throws ConfigError when the disk is full or the folder is gone.
  void write(const std::string& text) const;
  /// The same for a file too large to be held as one text.
  void write(const std::function<void(std::ostream&)>& fill) const;

 private:
  std::string flag_;
  std::string path_;
};

}  // namespace orrery::cli
