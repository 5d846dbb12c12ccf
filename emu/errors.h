// The two exception types of Orrery: bad input, and a broken invariant of our own.
#pragma once

#include <stdexcept>
#include <string>

namespace orrery::emu {

/// Bad input, known before any work starts; the program prints what() as one line and exits with 2.
class ConfigError : public std::runtime_error {
 public:
  /// `where`: file (with line, if known) or command line flag; `field`: dotted path, may be empty;
  /// `value`: as given; `expectation`: what would have been accepted.
  ConfigError(const std::string& where, const std::string& field, const std::string& value,
              const std::string& expectation)
      : std::runtime_error(compose(where, field, value, expectation)) {}
  /// An error met while something larger was read: `message` says where and repeats it.
  explicit ConfigError(const std::string& message) : std::runtime_error(message) {}

 private:
  static std::string one_line(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, 200)) {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return text.size() > 200 ? out + "…" : out;
  }
  static std::string compose(const std::string& where, const std::string& field,
                             const std::string& value, const std::string& expectation) {
    std::string out = one_line(where) + ": ";
    if (!field.empty()) out += one_line(field) + ": ";
    return out + "got '" + one_line(value) + "', expected " + expectation;
  }
};

/// A broken invariant of Orrery or of an algorithm (never of user input).
class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A peer process was lost or the transport failed: exit code 4.
class TransportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace orrery::emu
