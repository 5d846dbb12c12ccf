#include "moe/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <set>

#include "emu/errors.h"
#include "moe/abi_stamp.h"
#include "moe/algorithm.h"

namespace orrery::moe {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& expectation) {
  throw emu::ConfigError("--plugin", "", file, expectation);
}

// The loader's words without the file's name, which stands in the message already.
std::string loader_error(const std::string& path) {
  const char* error = dlerror();
  std::string text = error == nullptr ? "" : error;
  if (text.rfind(path + ": ", 0) == 0) text = text.substr(path.size() + 2);
  if (text.find("undefined symbol") != std::string::npos) {
    return text +
           " (not in this orrery: was it built against another one, or not linked with a "
           "library it needs?)";
  }
  return text;
}

}  // namespace

std::string plugin_abi() { return kAbiStamp; }

void load_plugin(const std::string& file) {
  // Like the table of algorithms, what is loaded belongs to the process, whoever asked for it.
  static std::mutex mutex;
  static std::set<fs::path> loaded;
  const std::lock_guard lock(mutex);

  std::error_code error;
  if (!fs::exists(file, error)) refuse(file, "a file that exists");
  if (fs::is_directory(file, error)) refuse(file, "a shared library, not a directory");
  const fs::path path = fs::canonical(file, error);
  if (error) refuse(file, "a file that can be read, not this: " + error.message());
  if (loaded.contains(path)) return;

  begin_registration(plugin_abi());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const Registration registration = end_registration();
  if (library == nullptr) refuse(file, "a shared library that loads: " + loader_error(path));
  if (!registration.refused.empty()) refuse(file, registration.refused);
  if (registration.lines == 0) {
    refuse(file, "a shared library with an ORRERY_ALGORITHM(…) line; this one registers nothing");
  }
  loaded.insert(path);
}

}  // namespace orrery::moe
