#include "cli/lock_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "emu/errors.h"

namespace orrery::cli {

LockFile::LockFile(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail();
}

LockFile::~LockFile() {
  if (file_ >= 0) close(file_);
}

void LockFile::fail() const {
  throw emu::ConfigError(path_, "", std::strerror(errno),
                         "a file that can be written, on a file system with locks");
}

bool LockFile::set(off_t byte, short type, bool wait) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  // Locks of the open file, not of the process: threads with an object each exclude each other.
  while (fcntl(file_, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) return false;
    if (errno != EINTR) fail();
  }
  return true;
}

bool LockFile::try_lock(off_t byte, Mode mode) {
  return set(byte, mode == Mode::kShared ? F_RDLCK : F_WRLCK, false);
}

bool LockFile::lock_soon(off_t byte, Mode mode) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  for (int i = 0; i < 40; ++i) {
    if (try_lock(byte, mode)) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

void LockFile::lock(off_t byte) { set(byte, F_WRLCK, true); }

void LockFile::unlock(off_t byte) { set(byte, F_UNLCK, false); }

std::uint64_t LockFile::number() const {
  std::uint64_t number = 0;
  if (pread(file_, &number, sizeof number, 0) != sizeof number) fail();
  return number;
}

void LockFile::set_number(std::uint64_t number) {
  if (pwrite(file_, &number, sizeof number, 0) != sizeof number) fail();
}

}  // namespace orrery::cli
