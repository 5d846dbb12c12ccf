// Events in the Chrome trace event format: text as it goes into the list "traceEvents".
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "emu/time.h"

namespace orrery::cli {

/// A JSON string, whatever the bytes.
std::string json_text(const std::string& text);

/// Microseconds as a decimal number, exact to the picosecond.
std::string microseconds(emu::Time time);

/// Writes events one after the other, separated by commas; buffered until the end.
class TraceEvents {
 public:
  explicit TraceEvents(std::ostream& out) : out_(out) {}
  ~TraceEvents() { flush(); }
  TraceEvents(const TraceEvents&) = delete;
  TraceEvents& operator=(const TraceEvents&) = delete;

  /// `position`: where viewers show it, smallest first.
  void name_process(std::uint32_t process, const std::string& name, std::uint32_t position);
  void name_track(std::uint32_t process, std::uint32_t track, const std::string& name);
  /// A span begins. `name` is a JSON string; `args` a JSON object, or nothing.
  void begin(std::uint32_t process, std::uint32_t track, emu::Time time, std::string_view category,
             std::string_view name, std::string_view args = {});
  /// The innermost span of the track ends.
  void end(std::uint32_t process, std::uint32_t track, emu::Time time);
  /// An arrow of number `id`: it starts ('s'), goes through ('t') or ends ('f') at the innermost
  /// span of the track.
  void flow(char phase, std::uint32_t process, std::uint32_t track, emu::Time time, std::size_t id);
  /// A counter of the process has a new value. `name` is a JSON string.
  void count(std::uint32_t process, emu::Time time, std::string_view name, std::string_view unit,
             double value);

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args);
  void flush();

  std::ostream& out_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
};

}  // namespace orrery::cli
