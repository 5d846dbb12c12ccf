// What CLI11 says about a command line, in Orrery's own shape: flag, value, expectation.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "emu/errors.h"

namespace orrery::cli {

/// The error to report for what `app` could not parse.
emu::ConfigError explain(const CLI::ParseError& error, const CLI::App& app);

/// The arguments with `--flag -5` written as `--flag=-5`: otherwise CLI11 takes a negative number
/// for a flag and the message would not name the value.
std::vector<std::string> join_negative_numbers(int argc, const char* const* argv);

}  // namespace orrery::cli
