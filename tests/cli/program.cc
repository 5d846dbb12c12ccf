#include "tests/cli/program.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace orrery::cli {

namespace fs = std::filesystem;

namespace {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "orrery-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

const fs::path& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path();
}

std::string scratch_file(const std::string& name, const std::string& text) {
  const fs::path path = scratch_folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return path.string();
}

Outcome run_program(const std::string& arguments, int processes) {
  const fs::path out = scratch_folder() / "out";
  const fs::path err = scratch_folder() / "err";
  std::string command = fmt::format("{} {}", ORRERY_PROGRAM, arguments);
  if (processes > 0) {
    command = fmt::format(
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {} -q --oversubscribe -n {} "
        "{}",
        ORRERY_MPIEXEC, processes, command);
  }
  command =
      fmt::format("timeout -k 5 120 {} </dev/null >{} 2>{}", command, out.string(), err.string());
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(out), read(err)};
}

}  // namespace orrery::cli
