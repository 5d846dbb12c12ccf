// Starts the built program as a user does and keeps what it says.
#pragma once

#include <filesystem>
#include <string>

namespace orrery::cli {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

/// Runs `orrery ARGUMENTS` through the shell, as `processes` processes under mpirun -q if that is
/// not 0. A run that takes more than two minutes is killed: code 124.
Outcome run_program(const std::string& arguments, int processes = 0);

/// A folder for this test program's files, removed at its end.
const std::filesystem::path& scratch_folder();

/// Writes `text` to `name` there; returns its path.
std::string scratch_file(const std::string& name, const std::string& text);

}  // namespace orrery::cli
