#include "cli/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "emu/errors.h"

namespace orrery::cli {

namespace {

std::uint64_t size_of(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

LineFile::LineFile(const std::string& path) : path_(path) { open_file(); }

LineFile::~LineFile() {
  if (file_ >= 0) close(file_);
}

void LineFile::open_file() {
  if (file_ >= 0) close(file_);
  file_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail();
  counted_to_ = size_of(file_);
}

void LineFile::fail() const {
  throw emu::ConfigError(path_, "", std::strerror(errno), "a file that can be read and written");
}

std::uint64_t LineFile::cut_torn_tail() {
  const std::uint64_t size = size_of(file_);
  std::uint64_t end = size;
  char buffer[4096];
  while (end > 0) {
    const std::uint64_t from = end > sizeof buffer ? end - sizeof buffer : 0;
    const auto bytes = static_cast<std::size_t>(end - from);
    if (pread(file_, buffer, bytes, static_cast<off_t>(from)) != static_cast<ssize_t>(bytes))
      fail();
    const auto* newline = static_cast<const char*>(memrchr(buffer, '\n', bytes));
    end = newline == nullptr ? from : from + static_cast<std::uint64_t>(newline - buffer) + 1;
    if (newline != nullptr) break;
  }
  if (end != size && ftruncate(file_, static_cast<off_t>(end)) != 0) fail();
  counted_to_ = std::min(counted_to_, end);
  return end;
}

void LineFile::append(const std::string& line) {
  const std::uint64_t before = cut_torn_tail();
  const ssize_t written = write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  if (written >= 0) {
    // A full disk. Where even this fails, the next to append cuts the torn line off.
    if (ftruncate(file_, static_cast<off_t>(before)) != 0) fail();
    errno = ENOSPC;
  }
  fail();
}

std::uint64_t LineFile::added() {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = pread(file_, buffer, sizeof buffer, static_cast<off_t>(counted_to_));
    if (got <= 0) return added_;
    added_ += static_cast<std::uint64_t>(std::count(buffer, buffer + got, '\n'));
    counted_to_ += static_cast<std::uint64_t>(got);
  }
}

void LineFile::for_each(const std::function<void(const std::string&, std::uint64_t)>& visit) const {
  std::ifstream in(path_, std::ios::binary);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) visit(line, ++number);
}

void LineFile::filter(const std::function<bool(const std::string&)>& keep) {
  const std::string beside = path_ + ".part";
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  for_each([&](const std::string& line, std::uint64_t) {
    if (keep(line)) out << line << '\n';
  });
  out.close();
  if (!out || std::rename(beside.c_str(), path_.c_str()) != 0) fail();
  open_file();
}

}  // namespace orrery::cli
