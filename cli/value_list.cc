#include "cli/value_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "emu/errors.h"

namespace orrery::cli {

namespace {

constexpr const char* kRangeForms =
    "a range of whole numbers: first:last, first:last:+step or first:last:*factor";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end + 1;
  }
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Values {
 public:
  Values(const std::string& where, const std::string& key) : where_(where), key_(key) {}

  void add(const std::string& item) {
    if (!item.empty() && is_digit(item.front()) && item.find(':') != std::string::npos) {
      add_range(item);
    } else {
      add_value(item);
    }
  }
  std::vector<std::string> take() { return std::move(values_); }

 private:
  [[noreturn]] void refuse(const std::string& got, const std::string& expected) const {
    throw emu::ConfigError(where_, key_, got, expected);
  }

  void add_value(const std::string& value) {
    if (value.empty()) refuse(value, "a value before and after each comma");
    const bool printable = std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (!printable) refuse(value, "a value without control characters");
    if (values_.size() == kMostPoints)
      refuse("more values", fmt::format("at most {}", kMostPoints));
    values_.push_back(value);
  }

  std::uint64_t number(const std::string& item, const std::string& text) const {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse(item, kRangeForms);
    return value;
  }

  void add_range(const std::string& item) {
    const std::vector<std::string> parts = split(item, ':');
    if (parts.size() > 3) refuse(item, kRangeForms);
    const std::uint64_t first = number(item, parts[0]);
    const std::uint64_t last = number(item, parts[1]);
    std::string step = parts.size() == 3 ? parts[2] : "+1";
    const bool factor = step.rfind('*', 0) == 0;
    if (factor || step.rfind('+', 0) == 0) step.erase(0, 1);
    const std::uint64_t by = number(item, step);
    if (last < first) refuse(item, "a range whose last value is not below its first");
    if (factor && (by < 2 || first == 0)) {
      refuse(item, "a factor of at least 2 and a first value above 0");
    }
    if (by == 0) refuse(item, "a step of at least 1");
    for (std::uint64_t value = first;;) {
      add_value(std::to_string(value));
      if (factor ? value > last / by : by > last - value) return;
      value = factor ? value * by : value + by;
    }
  }

  const std::string& where_;
  const std::string& key_;
  std::vector<std::string> values_;
};

}  // namespace

std::vector<std::string> parse_values(const std::string& where, const std::string& key,
                                      const std::string& text) {
  Values values(where, key);
  const char separator = text.find(';') == std::string::npos ? ',' : ';';
  for (const std::string& item : split(text, separator)) values.add(item);
  return values.take();
}

}  // namespace orrery::cli
