// Locks on single bytes of a file, for threads and processes, on one host or on several that share
// the file. The kernel frees the locks of a process however it ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace orrery::cli {

class LockFile {
 public:
  enum class Mode { kShared, kExclusive };

  /// Opens the file at `path`, made if it is not there. Throws ConfigError if that fails. Locks
  /// belong to the object: two objects on one file exclude each other in one process too.
  explicit LockFile(const std::string& path);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// False if another holds it. Throws ConfigError where the file system has no locks.
  bool try_lock(off_t byte, Mode mode);
  /// The same, but tries for two seconds.
  bool lock_soon(off_t byte, Mode mode);
  /// Waits as long as it takes.
  void lock(off_t byte);
  void unlock(off_t byte);

  /// A number that the file holds, for whoever holds a lock.
  std::uint64_t number() const;
  void set_number(std::uint64_t number);

 private:
  bool set(off_t byte, short type, bool wait);
  [[noreturn]] void fail() const;

  std::string path_;
  int file_ = -1;
};

}  // namespace orrery::cli
