#include "moe/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::moe {

namespace {
std::string path_of(const std::string& name) { return "algorithm." + name; }

std::uint64_t parse(const std::string& name, const std::string& text, std::uint64_t min,
                    std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    throw emu::ConfigError("--set", path_of(name), text,
                           fmt::format("a whole number from {} to {}", min, max));
  }
  return value;
}
}  // namespace

Options::Options(const std::vector<OptionSpec>& specs) {
  for (const OptionSpec& spec : specs) options_[spec.name] = {spec.default_value, spec.choices};
}

void Options::set(const std::string& name, const std::string& value) {
  const auto it = options_.find(name);
  if (it == options_.end()) {
    std::vector<std::string> known;
    for (const auto& [each, option] : options_) known.push_back(each);
    throw emu::ConfigError(
        "--set", path_of(name), value,
        known.empty() ? "no option: this algorithm has none"
                      : fmt::format("one of this algorithm's options: {}", fmt::join(known, ", ")) +
                            emu::did_you_mean(name, known));
  }
  const auto& choices = it->second.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
    throw emu::ConfigError("--set", path_of(name), value,
                           fmt::format("one of {}", fmt::join(choices, ", ")));
  }
  it->second.value = value;
}

const std::string& Options::text(const std::string& name) const { return options_.at(name).value; }

bool Options::flag(const std::string& name) const { return text(name) == "true"; }

std::uint64_t Options::number(const std::string& name, std::uint64_t min, std::uint64_t max) const {
  return parse(name, text(name), min, max);
}

double Options::decimal(const std::string& name, double min, double max) const {
  const std::string& given = text(name);
  double value = 0;
  const char* const end = given.data() + given.size();
  const auto parsed = std::from_chars(given.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= min && value <= max)) {
    throw emu::ConfigError("--set", path_of(name), given,
                           fmt::format("a number from {} to {}", min, max));
  }
  return value;
}

std::vector<std::uint64_t> Options::numbers(const std::string& name, std::uint64_t min,
                                            std::uint64_t max) const {
  std::vector<std::uint64_t> values;
  std::istringstream in(text(name));
  for (std::string item; std::getline(in, item, ',');)
    values.push_back(parse(name, item, min, max));
  return values;
}

}  // namespace orrery::moe
