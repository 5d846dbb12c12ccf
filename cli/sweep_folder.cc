#include "cli/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "cli/output_file.h"
#include "cli/point_record.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// Bytes of the lock file, each a lock of its own. The first eight hold the next number to claim.
constexpr off_t kSweepByte = 0;    // one sweep at a time: held by its first process
constexpr off_t kProcessByte = 1;  // shared by all processes of a sweep: the last to go frees it
constexpr off_t kWriteByte = 2;    // held for a moment by whoever claims or appends

// Locks of the open file: two threads or processes exclude each other, a dead one excludes nobody.
bool lock_byte(int file, off_t byte, short type, bool wait = false) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  int code;
  do {
    code = fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  } while (code != 0 && errno == EINTR);
  return code == 0;
}

// The same for up to two seconds: processes of a killed sweep may need a moment to go.
bool lock_soon(int file, off_t byte, short type) {
  using namespace std::chrono_literals;
  for (int i = 0; i < 40; ++i) {
    if (lock_byte(file, byte, type)) return true;
    if (errno != EAGAIN && errno != EACCES) return false;
    std::this_thread::sleep_for(50ms);
  }
  errno = EAGAIN;
  return false;
}

std::uint64_t size_of(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// The file's size once a last line without an end is cut off.
std::uint64_t cut_torn_tail(int file) {
  std::uint64_t end = size_of(file);
  const std::uint64_t size = end;
  char buffer[4096];
  while (end > 0) {
    const std::uint64_t from = end > sizeof buffer ? end - sizeof buffer : 0;
    const ssize_t got = pread(file, buffer, end - from, static_cast<off_t>(from));
    if (got <= 0) break;
    const auto* newline =
        static_cast<const char*>(memrchr(buffer, '\n', static_cast<std::size_t>(got)));
    if (newline != nullptr) {
      end = from + static_cast<std::uint64_t>(newline - buffer) + 1;
      break;
    }
    end = from;
  }
  if (end != size && ftruncate(file, static_cast<off_t>(end)) != 0) return size;
  return end;
}

Json to_json(const SweepRequest& request) {
  Json json = {{"fixed", Json::object()},
               {"vary", Json::array()},
               {"zip", request.zip},
               {"metrics", request.metrics}};
  for (const auto& [key, value] : request.fixed) json["fixed"][key] = value;
  for (const Axis& axis : request.axes)
    json["vary"].push_back({{"key", axis.key}, {"values", axis.values}});
  return json;
}

std::vector<std::string> varied_keys(const Json& sweep) {
  std::vector<std::string> keys;
  for (const Json& axis : sweep.at("vary")) keys.push_back(axis.at("key").get<std::string>());
  return keys;
}

std::string keys_text(const std::vector<std::string>& keys) {
  return fmt::format("{}", fmt::join(keys, ", "));
}

// In what two sweeps differ beyond the values of their keys, in words; empty if in nothing.
std::string difference(const Json& there, const Json& here) {
  if (const auto keys = varied_keys(there); keys != varied_keys(here))
    return fmt::format("it varies {}, not {}", keys_text(keys), keys_text(varied_keys(here)));
  const std::map<std::string, std::string> old = there.at("fixed");
  const std::map<std::string, std::string> now = here.at("fixed");
  for (const auto& [key, value] : old) {
    const auto it = now.find(key);
    if (it == now.end()) return fmt::format("there, {} is '{}', not left out", key, value);
    if (it->second != value)
      return fmt::format("there, {} is '{}', not '{}'", key, value, it->second);
  }
  for (const auto& [key, value] : now) {
    if (!old.contains(key)) return fmt::format("there, {} is left out, not '{}'", key, value);
  }
  return {};
}

// Runs `work` at rank 0; what it throws as ConfigError, all processes throw.
template <typename Work>
void at_first(const emu::ProcessGroup& processes, const Work& work) {
  std::string message;
  if (processes.rank() == 0) {
    try {
      work();
    } catch (const emu::ConfigError& error) {
      message = error.what();
    }
  }
  auto bytes = static_cast<std::size_t>(processes.max(static_cast<std::int64_t>(message.size())));
  if (bytes == 0) return;
  message.resize(bytes);
  processes.broadcast(std::as_writable_bytes(std::span(message)), 0);
  throw emu::ConfigError(message);
}

}  // namespace

class SweepFolder::Hold {
 public:
  explicit Hold(SweepFolder& folder) : folder_(folder), lock_(folder.mutex_) {
    if (!lock_byte(folder.lock_, kWriteByte, F_WRLCK, true)) folder.refuse(std::strerror(errno));
  }
  ~Hold() { lock_byte(folder_.lock_, kWriteByte, F_UNLCK); }

 private:
  SweepFolder& folder_;
  const std::lock_guard<std::mutex> lock_;
};

void SweepFolder::refuse(const std::string& what) const {
  throw emu::ConfigError("--out", "", path_, what);
}

SweepFolder::SweepFolder(const emu::ProcessGroup& processes, const std::string& path,
                         const SweepRequest& request, Resumption resumption)
    : path_(path), points_path_((fs::path(path) / "points.jsonl").string()) {
  at_first(processes, [&] { open_first(request, resumption); });
  const std::string lock_path = (fs::path(path_) / "lock").string();
  std::string problem;
  if (processes.rank() != 0) {
    lock_ = open(lock_path.c_str(), O_RDWR | O_CLOEXEC);
    points_ = open(points_path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  }
  const bool opened = lock_ >= 0 && points_ >= 0 && lock_byte(lock_, kProcessByte, F_RDLCK);
  if (processes.max(opened ? 0 : 1) != 0)
    refuse("a folder that all processes can write, with locks");
  // What is finished, from the first process, which has read it.
  std::string keys;
  for (const std::string& key : finished_) keys += key + "\n";
  auto bytes = static_cast<std::size_t>(processes.max(static_cast<std::int64_t>(keys.size())));
  keys.resize(bytes);
  if (bytes > 0) processes.broadcast(std::as_writable_bytes(std::span(keys)), 0);
  for (std::size_t at = 0; at < keys.size();) {
    const std::size_t end = keys.find('\n', at);
    finished_.insert(keys.substr(at, end - at));
    at = end + 1;
  }
}

SweepFolder::~SweepFolder() {
  if (points_ >= 0) close(points_);
  if (lock_ >= 0) close(lock_);
}

void SweepFolder::open_first(const SweepRequest& request, Resumption resumption) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (!fs::is_directory(path_)) refuse("a folder, or the name of a new one");
  const std::string lock_path = (fs::path(path_) / "lock").string();
  lock_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0)
    refuse(std::string("a folder that can be written, not this: ") + std::strerror(errno));
  if (!lock_soon(lock_, kSweepByte, F_WRLCK) || !lock_soon(lock_, kProcessByte, F_WRLCK)) {
    refuse(errno == EAGAIN || errno == EACCES
               ? "a folder in which no other sweep is at work"
               : std::string("a file system with locks, not this: ") + std::strerror(errno));
  }
  const std::uint64_t next = 0;
  if (pwrite(lock_, &next, sizeof next, 0) != sizeof next)
    refuse(std::string("a folder that can be written, not this: ") + std::strerror(errno));

  const fs::path sweep_path = fs::path(path_) / "sweep.json";
  const bool begun = fs::exists(points_path_, error) && fs::file_size(points_path_, error) > 0;
  if (begun && !resumption.resume)
    refuse("an empty folder, or --resume: this one holds finished points");
  const Json here = to_json(request);
  if (begun) {
    const Json there = Json::parse(std::ifstream(sweep_path), nullptr, false);
    std::string other;
    try {
      other = difference(there, here);
    } catch (const Json::exception&) {
      throw emu::ConfigError(sweep_path.string(), "", "something else", "what a sweep wrote there");
    }
    if (!other.empty()) {
      throw emu::ConfigError("--resume", "", path_, "a folder of this very sweep: " + other);
    }
  }
  const std::string beside = sweep_path.string() + ".part";
  std::ofstream out(beside, std::ios::trunc);
  out << here.dump(2) << "\n";
  out.close();
  if (!out || std::rename(beside.c_str(), sweep_path.c_str()) != 0)
    refuse(std::string("a folder that can be written, not this: ") + std::strerror(errno));
  open_points(resumption.retry_errors);
  lock_byte(lock_, kProcessByte, F_UNLCK);
}

void SweepFolder::open_points(bool retry_errors) {
  points_ = open(points_path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (points_ < 0)
    refuse(std::string("a folder that can be written, not this: ") + std::strerror(errno));
  counted_to_ = cut_torn_tail(points_);
  std::string kept;
  bool dropped = false;
  for_each_point([&](const nlohmann::json& point) {
    if (retry_errors && point["outcome"] == "error") {
      dropped = true;
      return;
    }
    finished_.insert(point["key"].get<std::string>());
  });
  if (!dropped) return;
  // The others, beside the file and then in its place.
  std::ifstream in(points_path_, std::ios::binary);
  const std::string beside = points_path_ + ".part";
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  for (std::string line; std::getline(in, line);) {
    if (finished_.contains(parse_line(line, points_path_)["key"].get<std::string>()))
      out << line << "\n";
  }
  out.close();
  if (!out || std::rename(beside.c_str(), points_path_.c_str()) != 0)
    refuse(std::string("a folder that can be written, not this: ") + std::strerror(errno));
  close(points_);
  points_ = open(points_path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (points_ < 0) refuse(std::strerror(errno));
  counted_to_ = size_of(points_);
}

std::uint64_t SweepFolder::claim() {
  const Hold hold(*this);
  std::uint64_t next = 0;
  if (pread(lock_, &next, sizeof next, 0) != sizeof next) refuse(std::strerror(errno));
  const std::uint64_t after = next + 1;
  if (pwrite(lock_, &after, sizeof after, 0) != sizeof after) refuse(std::strerror(errno));
  return next;
}

void SweepFolder::append(const std::string& line) {
  const Hold hold(*this);
  const std::uint64_t before = cut_torn_tail(points_);
  const ssize_t written = write(points_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  const std::string reason = written < 0 ? std::strerror(errno) : "the disk is full";
  if (written > 0 && ftruncate(points_, static_cast<off_t>(before)) != 0) {
    refuse("a disk with room: " + reason);  // the torn line is cut off by the next to append
  }
  refuse("a disk with room: " + reason);
}

std::uint64_t SweepFolder::added() {
  const std::lock_guard lock(mutex_);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = pread(points_, buffer, sizeof buffer, static_cast<off_t>(counted_to_));
    if (got <= 0) return added_;
    added_ += static_cast<std::uint64_t>(std::count(buffer, buffer + got, '\n'));
    counted_to_ += static_cast<std::uint64_t>(got);
  }
}

void SweepFolder::for_each_point(const std::function<void(const nlohmann::json&)>& visit) const {
  std::ifstream in(points_path_, std::ios::binary);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);)
    visit(parse_line(line, fmt::format("{}:{}", points_path_, ++number)));
}

}  // namespace orrery::cli
