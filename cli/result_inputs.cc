#include "cli/result_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <set>

namespace orrery::cli {

namespace {

using google::protobuf::FieldDescriptor;

const std::set<std::string> kOutcomes = {"virtual_time_us", "verified", "digest", "output_digest"};

std::string text_of(const moe::Result& result, const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return result.GetReflection()->GetString(result, &field);
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(result, &field, -1, &text);
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> inputs_of(const moe::Result& result) {
  std::vector<std::pair<std::string, std::string>> inputs;
  const auto& type = *result.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool plain = !field.is_repeated() && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
    if (plain && !kOutcomes.contains(std::string(field.name()))) {
      inputs.emplace_back(field.name(), text_of(result, field));
    }
  }
  const std::map<std::string, std::string> settings(result.settings().begin(),
                                                    result.settings().end());
  inputs.insert(inputs.end(), settings.begin(), settings.end());
  return inputs;
}

std::string input_of(const moe::Result& result, const std::string& name) {
  for (const auto& [input, value] : inputs_of(result)) {
    if (input == name) return value;
  }
  return kNotSet;
}

std::vector<std::string> differing_inputs(const std::vector<const moe::Result*>& results) {
  const auto first = inputs_of(*results.front());
  std::set<std::string> differing;
  for (const moe::Result* result : results) {
    auto inputs = inputs_of(*result);
    if (inputs == first) continue;
    // Those of one alone, and those with two values.
    std::map<std::string, std::string> values(first.begin(), first.end());
    for (const auto& [name, value] : inputs) {
      const auto it = values.find(name);
      if (it == values.end() || it->second != value) differing.insert(name);
      if (it != values.end()) values.erase(it);
    }
    for (const auto& [name, value] : values) differing.insert(name);
  }
  // In the order of the schema, then settings by name.
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs_of(moe::Result())) {
    if (differing.erase(name) > 0) names.push_back(name);
  }
  names.insert(names.end(), differing.begin(), differing.end());
  const bool tokens_are_set = std::any_of(differing.begin(), differing.end(), [](const auto& name) {
    return name.rfind("workload.tokens", 0) == 0;
  });
  if (tokens_are_set) std::erase(names, "tokens");
  return names;
}

std::string conclusion(const std::vector<std::string>& differing, bool same) {
  if (differing.size() > 1) {
    return fmt::format(
        "differ in {} inputs: {}; {}", differing.size(), fmt::join(differing, ", "),
        same ? "and yet in nothing else" : "no ratio below can be put down to one of them alone");
  }
  if (differing.size() == 1) return "differ in one input alone: " + differing.front();
  return same ? "have the same inputs and the same digests"
              : "have the same inputs but not the same digests: different versions of Orrery, or "
                "files of the same name that differ?";
}

}  // namespace orrery::cli
