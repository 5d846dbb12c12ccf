#include "cli/parse_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cctype>

#include "emu/near_match.h"

namespace orrery::cli {

namespace {

// The subcommand that was typed, or the program.
const CLI::App& typed_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The first flag that nothing knows, or else the first such word.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  for (const std::string& word : words) {
    if (word.rfind('-', 0) == 0) return word;
  }
  return words.empty() ? "" : words.front();
}

// CLI11 begins its messages with the option's name: "--tokens: 1 required TEXT missing".
std::string name_in(const std::string& message) {
  return message.substr(0, message.find_first_of(": "));
}

std::string help_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option == nullptr || option->get_description().empty() ? "a value"
                                                                : option->get_description();
}

}  // namespace

emu::ConfigError explain(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& command = typed_command(app);
  const std::string word = unexpected(app);
  if (&command == &app) {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands(nullptr)) names.push_back(each->get_name());
    return {"command line", "", word.empty() ? "nothing" : word,
            fmt::format("one of {}{}", fmt::join(names, ", "), emu::did_you_mean(word, names))};
  }
  const std::string message = error.what();
  const std::string name = name_in(message);
  // A mistyped flag explains a missing one: it comes first.
  if (!word.empty()) {
    const std::string typed = word.substr(0, word.find('='));
    return {"orrery " + command.get_name(), "", word,
            word.rfind('-', 0) == 0
                ? fmt::format("a flag of this command{}; see orrery {} --help",
                              emu::did_you_mean(typed, flags_of(command)), command.get_name())
                : "no further word"};
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return {name, "", "nothing", help_of(command, name)};
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = message.find("received") != std::string::npos;
    return {name, "", twice ? "more than one value" : "nothing",
            twice ? "this flag only once" : help_of(command, name)};
  }
  return {"command line", "", message,
          "flags as orrery " + command.get_name() + " --help lists them"};
}

std::vector<std::string> join_negative_numbers(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool negative =
        word.size() > 1 && word[0] == '-' &&
        (std::isdigit(static_cast<unsigned char>(word[1])) != 0 || word[1] == '.');
    if (negative && !arguments.empty() && arguments.back().rfind("--", 0) == 0 &&
        arguments.back().find('=') == std::string::npos) {
      arguments.back() += "=" + word;
    } else {
      arguments.push_back(word);
    }
  }
  return arguments;
}

}  // namespace orrery::cli
