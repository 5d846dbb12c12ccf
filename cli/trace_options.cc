#include "cli/trace_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "cli/run_options.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace {

constexpr double kMaxMicroseconds = 1e12;
constexpr std::uint64_t kMinEvents = 1000;
constexpr std::uint64_t kMaxEvents = 20'000'000;
constexpr std::uint64_t kTimelineEvents = 5'000'000;  // no viewer has to hold them

emu::Time parse_us(const std::string& flag, const std::string& text) {
  double us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(us >= 0 && us <= kMaxMicroseconds)) {
    throw emu::ConfigError(flag, "", text, "a number of microseconds from 0 to 1e12");
  }
  return emu::from_ns(us * 1e3);
}

std::vector<std::uint32_t> parse_devices(const std::string& text, std::uint32_t devices) {
  const std::string flag = "--trace-devices";
  std::vector<std::uint32_t> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t dash = part.find('-', 1);
    const auto first =
        static_cast<std::uint32_t>(parse_number(flag, part.substr(0, dash), 0, devices - 1));
    const auto last =
        dash == std::string::npos
            ? first
            : static_cast<std::uint32_t>(parse_number(flag, part.substr(dash + 1), 0, devices - 1));
    if (last < first) {
      throw emu::ConfigError(flag, "", part, "a range that goes upwards, such as 0,17-19");
    }
    for (std::uint32_t device = first; device <= last; ++device) list.push_back(device);
    at = comma + 1;
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace

void TraceOptions::add_to(CLI::App& app) {
  const auto add = [&app](const char* name, std::optional<std::string>& target, const char* help) {
    app.add_option_function<std::string>(
        name, [&target](const std::string& text) { target = text; }, help);
  };
  add("--trace", file, "write what happened there, for https://ui.perfetto.dev");
  add("--trace-devices", devices, "devices that are recorded, such as 0,17-19 (default: all)");
  add("--trace-from-us", from_us, "record from this virtual time on");
  add("--trace-to-us", to_us, "record up to this virtual time");
  add("--trace-events", events,
      "events recorded at most, each device an equal share (default: 1000000, for --timeline alone "
      "5000000)");
  app.add_flag("--timeline", timeline, "draw what happened as text, for small runs");
}

std::optional<moe::TraceRequest> TraceOptions::to_request(std::uint32_t run_devices) const {
  if (file && file->empty()) throw emu::ConfigError("--trace", "", "", "the name of a file");
  moe::TraceRequest request;
  if (devices) request.devices = parse_devices(*devices, run_devices);
  if (from_us) request.from = parse_us("--trace-from-us", *from_us);
  if (to_us) request.to = parse_us("--trace-to-us", *to_us);
  if (request.to <= request.from) {
    throw emu::ConfigError("--trace-to-us", "", *to_us,
                           "more than --trace-from-us " + from_us.value_or("0"));
  }
  if (!file) request.max_events = kTimelineEvents;
  if (events) request.max_events = parse_number("--trace-events", *events, kMinEvents, kMaxEvents);
  if (file || timeline) return request;
  const std::pair<const char*, const std::optional<std::string>*> needing[] = {
      {"--trace-devices", &devices},
      {"--trace-from-us", &from_us},
      {"--trace-to-us", &to_us},
      {"--trace-events", &events}};
  for (const auto& [flag, value] : needing) {
    if (*value) throw emu::ConfigError(flag, "", **value, "--trace FILE or --timeline with it");
  }
  return std::nullopt;
}

}  // namespace orrery::cli
