// An algorithm's options: declared with default and help, set by --set algorithm.NAME=VALUE.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace orrery::moe {

struct OptionSpec {
  std::string name;
  std::string default_value;
  std::string help;
  std::vector<std::string> choices;  // empty: a number or free text
};

/// Options with the values of one run. Getters throw ConfigError for a value of the wrong kind.
class Options {
 public:
  Options() = default;
  explicit Options(const std::vector<OptionSpec>& specs);

  /// Throws ConfigError for an unknown name (listing the known ones) or a value that is no choice.
  void set(const std::string& name, const std::string& value);

  const std::string& text(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::uint64_t number(const std::string& name, std::uint64_t min, std::uint64_t max) const;
  double decimal(const std::string& name, double min, double max) const;
  /// A comma-separated list of numbers; may be empty.
  std::vector<std::uint64_t> numbers(const std::string& name, std::uint64_t min,
                                     std::uint64_t max) const;

 private:
  struct Option {
    std::string value;
    std::vector<std::string> choices;
  };
  std::map<std::string, Option> options_;
};

}  // namespace orrery::moe
