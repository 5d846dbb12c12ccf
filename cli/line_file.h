// A file of lines to which several threads and processes append, one line per write.
//
// Who appends holds a lock (not here: cli/sweep_folder.h), so that lines never mix. A process that
// is killed within its write leaves a line without an end: the next to append cuts it off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace orrery::cli {

class LineFile {
 public:
  /// Opens the file at `path`, made if it is not there. Throws ConfigError, as the others do, when
  /// the file cannot be read or written.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes of the lines that have an end; what stands behind them is cut off.
  std::uint64_t cut_torn_tail();
  /// `line` ends in its only '\n'. All of it is written or nothing.
  void append(const std::string& line);
  /// Lines added by anybody since this object was made. Not for two threads at a time.
  std::uint64_t added();
  /// Each line without its end, and its number from 1. A last line without an end is none.
  void for_each(const std::function<void(const std::string&, std::uint64_t)>& visit) const;
  /// Leaves the lines that `keep` accepts: written beside the file, then put in its place.
  void filter(const std::function<bool(const std::string&)>& keep);

 private:
  void open_file();
  [[noreturn]] void fail() const;

  std::string path_;
  int file_ = -1;
  std::uint64_t counted_to_ = 0;  // bytes that added() has looked at
  std::uint64_t added_ = 0;
};

}  // namespace orrery::cli
