#include "cli/shipped_values.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <vector>

#include "cli/data_files.h"
#include "cli/result_inputs.h"
#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::cli {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

bool is_shipped(const std::string& folder, const std::string& name) {
  const std::vector<std::string> names = data_names(folder);
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool begins(const std::string& input, const char* root) { return input.rfind(root, 0) == 0; }

// The single field at a dotted path, as text; nothing for lists and for what is not there.
std::optional<std::string> field_text(const Message& message, const std::string& path) {
  const std::size_t dot = path.find('.');
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
  if (field == nullptr || field->is_repeated()) return std::nullopt;
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (dot != std::string::npos) {
    if (!is_message) return std::nullopt;
    return field_text(message.GetReflection()->GetMessage(message, field), path.substr(dot + 1));
  }
  if (is_message) return std::nullopt;
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

std::optional<std::string> option_default(const std::string& algorithm, const std::string& option) {
  const moe::AlgorithmEntry* entry = registered_algorithm(algorithm);
  if (entry == nullptr) return std::nullopt;
  for (const moe::OptionSpec& spec : entry->options) {
    if (spec.name == option) return spec.default_value;
  }
  return std::nullopt;
}

std::optional<std::string> shipped_value(const moe::Result& result, const std::string& input) {
  const Settings settings = settings_of(result);
  const std::string path = input.substr(input.find('.') + 1);
  if (begins(input, "algorithm.")) return option_default(result.algorithm(), path);
  if (begins(input, "workload.")) {
    const auto workload = shipped_workload(result.workload(), settings);
    return workload ? field_text(*workload, path) : std::nullopt;
  }
  if (begins(input, "fabric.") || begins(input, "device.")) {
    const auto machine = shipped_machine(result.topology(), settings);
    return machine ? field_text(*machine, input) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Settings settings_of(const moe::Result& result) {
  return {result.settings().begin(), result.settings().end()};
}

std::optional<devices::Machine> shipped_machine(const std::string& name, const Settings& settings) {
  if (!is_shipped("topologies", name)) return std::nullopt;
  try {
    return devices::load_machine(find_data_file("topologies", name, "topology"),
                                 {settings.begin(), settings.end()});
  } catch (const emu::ConfigError&) {
    return std::nullopt;
  }
}

std::optional<moe::Workload> shipped_workload(const std::string& name, const Settings& settings) {
  if (!is_shipped("workloads", name)) return std::nullopt;
  try {
    moe::Workload workload = moe::load_workload(find_data_file("workloads", name, "workload"));
    for (const auto& [field, value] : settings) {
      if (begins(field, "workload.")) {
        emu::set_field(workload, field.substr(field.find('.') + 1), value, "settings");
      }
    }
    return workload;
  } catch (const emu::ConfigError&) {
    return std::nullopt;
  }
}

const moe::AlgorithmEntry* registered_algorithm(const std::string& name) {
  for (const moe::AlgorithmEntry& entry : moe::algorithms()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string value_or_shipped(const moe::Result& result, const std::string& input) {
  const std::string value = input_of(result, input);
  if (value != kNotSet) return value;
  const auto shipped = shipped_value(result, input);
  return shipped ? fmt::format("{} ({})", kNotSet, *shipped) : value;
}

bool is_same_value(const std::string& input, const moe::Result& first, const moe::Result& other) {
  if (begins(input, "algorithm.")) {
    const auto value = [&input](const moe::Result& result) {
      const std::string given = input_of(result, input);
      return given == kNotSet ? shipped_value(result, input) : given;
    };
    return value(first) && value(first) == value(other);
  }
  const Settings mine = settings_of(first);
  Settings changed = mine;
  changed.erase(input);
  const auto it = other.settings().find(input);
  if (it != other.settings().end()) changed[input] = it->second;
  if (begins(input, "workload.")) {
    const auto a = shipped_workload(first.workload(), mine);
    const auto b = shipped_workload(first.workload(), changed);
    return a && b && MessageDifferencer::Equivalent(*a, *b);
  }
  if (begins(input, "fabric.") || begins(input, "device.")) {
    const auto a = shipped_machine(first.topology(), mine);
    const auto b = shipped_machine(first.topology(), changed);
    return a && b && MessageDifferencer::Equivalent(*a, *b);
  }
  return false;
}

}  // namespace orrery::cli
