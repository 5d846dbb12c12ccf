#include "cli/sweep_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <vector>

#include "cli/point_record.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// Bytes of the lock file, each a lock of its own. Its number is the next to claim.
constexpr off_t kSweepByte = 0;    // one sweep at a time: held by its first process
constexpr off_t kProcessByte = 1;  // shared by all processes of a sweep: the last to go frees it
constexpr off_t kWriteByte = 2;    // held for a moment by whoever claims or appends

std::string file_in(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

Json to_json(const SweepRequest& request, const SweepFolder::Inputs& inputs) {
  Json json = {{"fixed", Json::object()},
               {"vary", Json::array()},
               {"zip", request.zip},
               {"metrics", request.metrics}};
  json["inputs"] = inputs;
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
  const SweepFolder::Inputs read = there.at("inputs");
  const SweepFolder::Inputs reads = here.at("inputs");
  for (const auto& [file, digest] : read) {
    const auto it = reads.find(file);
    if (it != reads.end() && it->second != digest)
      return fmt::format("{} has been changed since", file);
  }
  return {};
}

// A text of the first process, on all.
std::string from_first(const emu::ProcessGroup& processes, std::string text) {
  if (processes.rank() != 0) text.clear();
  text.resize(static_cast<std::size_t>(processes.max(static_cast<std::int64_t>(text.size()))));
  if (!text.empty()) processes.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// Runs `work` at the first process; what it throws as ConfigError, all throw.
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
  message = from_first(processes, message);
  if (!message.empty()) throw emu::ConfigError(message);
}

}  // namespace

class SweepFolder::Hold {
 public:
  explicit Hold(SweepFolder& folder) : lock_(*folder.lock_), guard_(folder.mutex_) {
    lock_.lock(kWriteByte);
  }
  ~Hold() { lock_.unlock(kWriteByte); }

 private:
  LockFile& lock_;
  const std::lock_guard<std::mutex> guard_;
};

SweepFolder::SweepFolder(const emu::ProcessGroup& processes, const std::string& path,
                         const SweepRequest& request, const Inputs& inputs, Resumption resumption)
    : path_(path) {
  at_first(processes, [&] { open_first(request, inputs, resumption); });
  std::string problem;
  try {
    if (!lock_) lock_ = std::make_unique<LockFile>(file_in(path_, "lock"));
    if (!points_) points_ = std::make_unique<LineFile>(file_in(path_, "points.jsonl"));
    if (!lock_->try_lock(kProcessByte, LockFile::Mode::kShared))
      throw emu::ConfigError("--out", "", path_, "a folder in which no other sweep is at work");
  } catch (const emu::ConfigError& error) {
    problem = error.what();
  }
  if (processes.max(problem.empty() ? 0 : 1) != 0) {
    throw emu::ConfigError(problem.empty() ? path_ + ": another process can't write there"
                                           : problem);
  }
  std::string keys;
  for (const std::string& key : finished_) keys += key + "\n";
  keys = from_first(processes, keys);
  for (std::size_t at = 0; at < keys.size();) {
    const std::size_t end = keys.find('\n', at);
    finished_.insert(keys.substr(at, end - at));
    at = end + 1;
  }
}

void SweepFolder::open_first(const SweepRequest& request, const Inputs& inputs,
                             Resumption resumption) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (!fs::is_directory(path_, error))
    throw emu::ConfigError("--out", "", path_, "a folder, or the name of a new one");
  lock_ = std::make_unique<LockFile>(file_in(path_, "lock"));
  // Processes of a killed sweep may need a moment to go.
  if (!lock_->lock_soon(kSweepByte, LockFile::Mode::kExclusive) ||
      !lock_->lock_soon(kProcessByte, LockFile::Mode::kExclusive)) {
    throw emu::ConfigError("--out", "", path_, "a folder in which no other sweep is at work");
  }
  lock_->set_number(0);
  points_ = std::make_unique<LineFile>(file_in(path_, "points.jsonl"));
  const bool begun = points_->cut_torn_tail() > 0;
  if (begun && !resumption.resume) {
    throw emu::ConfigError("--out", "", path_,
                           "an empty folder, or --resume: this one holds finished points");
  }
  write_request(request, inputs, begun);
  bool errors = false;
  for_each_point([&](const nlohmann::json& point) {
    const bool again = resumption.retry_errors && point["outcome"] == "error";
    errors = errors || again;
    if (!again) finished_.insert(point["key"].get<std::string>());
  });
  if (errors) {
    points_->filter([&](const std::string& line) {
      return finished_.contains(parse_line(line, path_)["key"].get<std::string>());
    });
  }
  lock_->unlock(kProcessByte);
}

void SweepFolder::write_request(const SweepRequest& request, const Inputs& inputs,
                                bool begun) const {
  const std::string path = file_in(path_, "sweep.json");
  const Json here = to_json(request, inputs);
  if (begun) {
    const Json there = Json::parse(std::ifstream(path), nullptr, false);
    std::string other;
    try {
      other = difference(there, here);
    } catch (const Json::exception&) {
      throw emu::ConfigError(path, "", "something else", "what a sweep wrote there");
    }
    if (!other.empty())
      throw emu::ConfigError("--resume", "", path_, "a folder of this very sweep: " + other);
  }
  const std::string beside = path + ".part";
  std::ofstream out(beside, std::ios::trunc);
  out << here.dump(2) << "\n";
  out.close();
  if (!out || std::rename(beside.c_str(), path.c_str()) != 0)
    throw emu::ConfigError(path, "", std::strerror(errno), "a file that can be written");
}

std::uint64_t SweepFolder::claim() {
  const Hold hold(*this);
  const std::uint64_t next = lock_->number();
  lock_->set_number(next + 1);
  return next;
}

void SweepFolder::append(const std::string& line) {
  const Hold hold(*this);
  points_->append(line);
}

void SweepFolder::append_once(const std::string& key, const std::string& line) {
  const Hold hold(*this);
  bool there = false;
  for_each_point([&](const nlohmann::json& point) { there = there || point["key"] == key; });
  if (!there) points_->append(line);
}

std::uint64_t SweepFolder::added() {
  const std::lock_guard guard(mutex_);
  return points_->added();
}

void SweepFolder::for_each_point(const std::function<void(const nlohmann::json&)>& visit) const {
  points_->for_each([&](const std::string& line, std::uint64_t number) {
    visit(parse_line(line, fmt::format("{}:{}", points_->path(), number)));
  });
}

}  // namespace orrery::cli
