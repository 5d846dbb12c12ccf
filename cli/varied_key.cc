#include "cli/varied_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>

#include "cli/data_files.h"
#include "devices/machine.h"
#include "emu/digest.h"
#include "emu/errors.h"
#include "emu/near_match.h"
#include "emu/text_config.h"
#include "moe/algorithm.h"
#include "moe/workload.h"

namespace orrery::cli {

namespace {

struct Flag {
  const char* name;
  std::function<void(RunOptions&, const std::string& where, const std::string& value)> set;
};

bool truth(const std::string& where, const std::string& key, const std::string& value) {
  if (value != "true" && value != "false")
    throw emu::ConfigError(where, key, value, "true or false");
  return value == "true";
}

template <typename Member>
Flag text(const char* name, Member member) {
  return {name, [member](RunOptions& options, const std::string&, const std::string& value) {
            options.*member = value;
          }};
}

Flag flag(const char* name, bool RunOptions::*member) {
  return {name,
          [name, member](RunOptions& options, const std::string& where, const std::string& value) {
            options.*member = truth(where, name, value);
          }};
}

std::vector<Flag> flags() {
  return {text("topology", &RunOptions::topology),
          text("workload", &RunOptions::workload),
          text("algorithm", &RunOptions::algorithm),
          text("devices", &RunOptions::devices),
          text("placement", &RunOptions::placement),
          text("tokens", &RunOptions::tokens),
          text("iterations", &RunOptions::iterations),
          text("seed", &RunOptions::seed),
          flag("align", &RunOptions::align),
          flag("align-iterations", &RunOptions::align_iterations),
          flag("adversary", &RunOptions::adversary),
          flag("check", &RunOptions::check),
          text("max-virtual-ms", &RunOptions::max_virtual_ms),
          text("operation", &RunOptions::operation),
          text("payload", &RunOptions::payload)};
}

std::string root_of(const std::string& key) { return key.substr(0, key.find('.')); }

// What a check says of --set, said of the flag that was typed.
emu::ConfigError said_of(const std::string& where, const std::string& message) {
  constexpr const char* kSet = "--set: ";
  return emu::ConfigError(message.rfind(kSet, 0) == 0 ? where + ": " + message.substr(7) : message);
}

// The values that `key` has over the sweep.
std::vector<std::string> values_of(const std::vector<Axis>& axes, const std::string& key,
                                   const std::string& fixed) {
  for (const Axis& axis : axes) {
    if (axis.key == key) return axis.values;
  }
  return {fixed};
}

using Messages = std::vector<std::unique_ptr<google::protobuf::Message>>;

template <typename Message>
Messages load_all(const std::string& folder, const std::vector<std::string>& names) {
  Messages messages;
  for (const std::string& name : names) {
    auto message = std::make_unique<Message>();
    emu::load_text_file(find_data_file(folder, name, "--vary"), *message);
    messages.push_back(std::move(message));
  }
  return messages;
}

// Throws what `try_one` throws for the first of `things` unless it accepts one of them.
template <typename Things, typename Try>
void accepted_by_one(const Things& things, const std::string& where, const Try& try_one) {
  std::optional<emu::ConfigError> first;
  for (const auto& thing : things) {
    try {
      try_one(thing);
      return;
    } catch (const emu::ConfigError& error) {
      if (!first) first = said_of(where, error.what());
    }
  }
  if (first) throw *first;
}

void check_paths(const Axis& axis, const std::string& field, const Messages& messages,
                 const std::string& where) {
  for (const std::string& value : axis.values) {
    accepted_by_one(messages, where,
                    [&](const auto& message) { emu::set_field(*message, field, value, where); });
  }
}

void check_algorithm_options(const Axis& axis, const std::vector<std::string>& algorithms,
                             const std::string& where) {
  for (const std::string& value : axis.values) {
    accepted_by_one(algorithms, where, [&](const std::string& algorithm) {
      moe::Options(moe::find_algorithm(algorithm).options).set(axis.key.substr(10), value);
    });
  }
}

}  // namespace

bool is_setting(const std::string& key) {
  const std::string root = root_of(key);
  return root != key &&
         (root == "fabric" || root == "device" || root == "workload" || root == "algorithm");
}

std::vector<std::string> varied_flags() {
  std::vector<std::string> names;
  for (const Flag& each : flags()) names.emplace_back(each.name);
  return names;
}

void set_key(RunOptions& options, const std::string& where, const std::string& key,
             const std::string& value) {
  if (is_setting(key)) {
    options.settings.push_back(key + "=" + value);
    return;
  }
  for (const Flag& each : flags()) {
    if (key == each.name) return each.set(options, where, value);
  }
  std::vector<std::string> known = varied_flags();
  const std::string flags_text = fmt::format("{}", fmt::join(known, ", "));
  for (const char* root : {"fabric", "device", "workload", "algorithm"}) known.emplace_back(root);
  throw emu::ConfigError(
      where, "", key,
      fmt::format(
          "one of {}, or a path that begins with fabric., device., workload. or algorithm.{}",
          flags_text, emu::did_you_mean(root_of(key), known)));
}

std::string file_digest(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = text.str();
  return emu::to_hex(emu::digest_bytes(std::as_bytes(std::span(bytes))));
}

std::map<std::string, std::string> input_digests(const std::vector<Axis>& axes,
                                                 const RunOptions& options) {
  std::map<std::string, std::string> digests;
  const auto add = [&digests](const std::string& path) { digests[path] = file_digest(path); };
  for (const std::string& name : values_of(axes, "topology", options.topology))
    add(find_data_file("topologies", name, "--topology"));
  for (const std::string& name : values_of(axes, "workload", options.workload)) {
    const std::string path = find_data_file("workloads", name, "--workload");
    add(path);
    moe::Workload workload;
    emu::load_text_file(path, workload);
    if (workload.gate().has_trace_file())
      add((std::filesystem::path(path).parent_path() / workload.gate().trace_file()).string());
  }
  return digests;
}

void check_axes(const std::vector<Axis>& axes, const RunOptions& options,
                const std::string& where) {
  for (const Axis& axis : axes) {
    for (const std::string& value : axis.values) {
      RunOptions changed = options;
      set_key(changed, where, axis.key, value);
      if (!is_setting(axis.key)) changed.check_texts();
    }
  }
  options.check_texts();
  const auto topologies = values_of(axes, "topology", options.topology);
  const auto workloads = values_of(axes, "workload", options.workload);
  const auto algorithms = values_of(axes, "algorithm", options.algorithm);
  for (const Axis& axis : axes) {
    if (!is_setting(axis.key)) continue;
    const std::string root = root_of(axis.key);
    if (root == "algorithm") {
      check_algorithm_options(axis, algorithms, where);
    } else if (root == "workload") {
      check_paths(axis, axis.key.substr(9), load_all<moe::Workload>("workloads", workloads), where);
    } else {
      check_paths(axis, axis.key, load_all<devices::Machine>("topologies", topologies), where);
    }
  }
}

}  // namespace orrery::cli
