#include "cli/sweep_request.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>

#include "cli/value_list.h"
#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::cli {

namespace {

using google::protobuf::FieldDescriptor;

std::pair<std::string, std::string> split_pair(const std::string& where, const std::string& text,
                                               const char* expected) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw emu::ConfigError(where, "", text, expected);
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// The value of a flag that a sweep file gives, as it is typed on the command line.
std::string text_of(const Sweep& sweep, const FieldDescriptor& field) {
  const google::protobuf::Reflection& get = *sweep.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(get.GetUInt32(sweep, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return std::to_string(get.GetUInt64(sweep, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return get.GetBool(sweep, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", get.GetDouble(sweep, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return get.GetString(sweep, &field);
    default:
      throw emu::InvariantError("a flag of a sweep file has a type that no flag has");
  }
}

template <typename Pairs>
auto find_key(Pairs& pairs, const std::string& key) {
  return std::find_if(pairs.begin(), pairs.end(),
                      [&](const auto& each) { return each.first == key; });
}

auto find_axis(const std::vector<Axis>& axes, const std::string& key) {
  return std::find_if(axes.begin(), axes.end(), [&](const Axis& each) { return each.key == key; });
}

}  // namespace

void SweepRequest::add_axis(const std::string& where, const std::string& text) {
  const auto [key, values] = split_pair(where, text, "key=value,value,…");
  axes.push_back({key, parse_values(where, key, values)});
}

void SweepRequest::add_setting(const std::string& where, const std::string& text) {
  const auto [key, value] = split_pair(where, text, "path.to.field=value");
  if (!is_setting(key)) {
    throw emu::ConfigError(where, key, value,
                           "a path that begins with fabric., device., workload. or algorithm.");
  }
  // As in a run, what comes later counts.
  const auto before = find_key(fixed, key);
  if (before != fixed.end()) fixed.erase(before);
  fixed.emplace_back(key, value);
}

void SweepRequest::check(const std::string& where) const {
  std::set<std::string> keys;
  for (const Axis& axis : axes) {
    if (!keys.insert(axis.key).second) {
      throw emu::ConfigError(where, "", axis.key, "each key only once");
    }
    const auto same = find_key(fixed, axis.key);
    if (same != fixed.end()) {
      throw emu::ConfigError(where, axis.key, "values",
                             fmt::format("nothing: it is fixed to '{}' already", same->second));
    }
  }
}

SweepRequest to_request(const Sweep& sweep, const std::string& where) {
  emu::check_ranges(sweep, where);
  SweepRequest request;
  const std::vector<std::string> known = varied_flags();
  std::vector<const FieldDescriptor*> fields;
  sweep.GetReflection()->ListFields(sweep, &fields);
  for (const FieldDescriptor* field : fields) {
    std::string name = field->name();
    std::replace(name.begin(), name.end(), '_', '-');
    if (std::find(known.begin(), known.end(), name) != known.end())
      request.fixed.emplace_back(name, text_of(sweep, *field));
  }
  for (const std::string& setting : sweep.set()) request.add_setting(where, setting);
  for (const Vary& vary : sweep.vary()) {
    request.axes.push_back({vary.key(), parse_values(where, vary.key(), vary.values())});
  }
  request.zip = sweep.zip();
  request.metrics.assign(sweep.metric().begin(), sweep.metric().end());
  request.check(where);
  return request;
}

SweepRequest load_request(const std::string& path) {
  Sweep sweep;
  emu::load_text_file(path, sweep);
  return to_request(sweep, path);
}

SweepRequest merge(const SweepRequest& base, const SweepRequest& over) {
  SweepRequest merged = base;
  std::erase_if(merged.fixed, [&](const auto& each) {
    return find_key(over.fixed, each.first) != over.fixed.end() ||
           find_axis(over.axes, each.first) != over.axes.end();
  });
  merged.fixed.insert(merged.fixed.end(), over.fixed.begin(), over.fixed.end());
  std::erase_if(merged.axes, [&](const Axis& each) {
    return find_key(over.fixed, each.key) != over.fixed.end();
  });
  for (const Axis& axis : over.axes) {
    const auto same = std::find_if(merged.axes.begin(), merged.axes.end(),
                                   [&](const Axis& each) { return each.key == axis.key; });
    if (same != merged.axes.end()) {
      same->values = axis.values;
    } else {
      merged.axes.push_back(axis);
    }
  }
  merged.zip = base.zip || over.zip;
  if (!over.metrics.empty()) merged.metrics = over.metrics;
  return merged;
}

}  // namespace orrery::cli
