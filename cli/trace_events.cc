#include "cli/trace_events.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

namespace orrery::cli {

namespace {
constexpr std::size_t kBufferBytes = 1 << 20;
}  // namespace

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(emu::Time time) {
  std::string text = fmt::format("{}.{:06}", time / emu::kMicrosecond, time % emu::kMicrosecond);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

template <typename... Args>
void TraceEvents::add(fmt::format_string<Args...> format, Args&&... args) {
  if (!first_) fmt::format_to(std::back_inserter(buffer_), ",\n");
  first_ = false;
  fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  if (buffer_.size() > kBufferBytes) flush();
}

void TraceEvents::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

void TraceEvents::name_process(std::uint32_t process, const std::string& name,
                               std::uint32_t position) {
  add(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process,
      json_text(name));
  add(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", process,
      position);
}

void TraceEvents::name_track(std::uint32_t process, std::uint32_t track, const std::string& name) {
  add(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process, track,
      json_text(name));
  add(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      process, track, track);
}

void TraceEvents::begin(std::uint32_t process, std::uint32_t track, emu::Time time,
                        std::string_view category, std::string_view name, std::string_view args) {
  add(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"cat":"{}","name":{}{}{}}})", process, track,
      microseconds(time), category, name, args.empty() ? "" : R"(,"args":)", args);
}

void TraceEvents::end(std::uint32_t process, std::uint32_t track, emu::Time time) {
  add(R"({{"ph":"E","pid":{},"tid":{},"ts":{}}})", process, track, microseconds(time));
}

void TraceEvents::flow(char phase, std::uint32_t process, std::uint32_t track, emu::Time time,
                       std::size_t id) {
  add(R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"cat":"put","name":"put","id":{}{}}})", phase,
      process, track, microseconds(time), id, phase == 'f' ? R"(,"bp":"e")" : "");
}

void TraceEvents::count(std::uint32_t process, emu::Time time, std::string_view name,
                        std::string_view unit, double value) {
  add(R"({{"ph":"C","pid":{},"tid":{},"ts":{},"name":{},"args":{{"{}":{:.2f}}}}})", process,
      process, microseconds(time), name, unit, value);
}

}  // namespace orrery::cli
