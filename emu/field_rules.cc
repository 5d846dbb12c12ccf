#include "emu/field_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "emu/near_match.h"
#include "emu/options.pb.h"

namespace orrery::emu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

template <typename T>
Bounds limits_of() {
  return {static_cast<double>(std::numeric_limits<T>::lowest()),
          static_cast<double>(std::numeric_limits<T>::max())};
}

Bounds type_limits(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return limits_of<std::int32_t>();
    case FieldDescriptor::CPPTYPE_INT64:
      return limits_of<std::int64_t>();
    case FieldDescriptor::CPPTYPE_UINT32:
      return limits_of<std::uint32_t>();
    case FieldDescriptor::CPPTYPE_UINT64:
      return limits_of<std::uint64_t>();
    case FieldDescriptor::CPPTYPE_FLOAT:
      return limits_of<float>();
    default:
      return limits_of<double>();
  }
}

std::vector<std::string> field_names(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(std::string(type.field(i)->name()));
  return names;
}

// Integers up to 2^53 in full, the rest as short as it is exact.
std::string number(double value) {
  if (value == static_cast<double>(static_cast<std::int64_t>(std::clamp(value, -1e15, 1e15)))) {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}

}  // namespace

Bounds bounds_of(const FieldDescriptor& field) {
  Bounds bounds = type_limits(field);
  if (field.options().HasExtension(range)) {
    const Range& given = field.options().GetExtension(range);
    if (given.has_min()) bounds.min = std::max(bounds.min, given.min());
    if (given.has_max()) bounds.max = std::min(bounds.max, given.max());
  }
  return bounds;
}

std::string describe(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        names.push_back(std::string(field.enum_type()->value(i)->name()));
      }
      return fmt::format("one of {}", fmt::join(names, ", "));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return fmt::format("a message {{ {} }}", fmt::join(field_names(*field.message_type()), ", "));
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const Bounds bounds = bounds_of(field);
      const Bounds widest = type_limits(field);
      if (bounds.min == widest.min && bounds.max == widest.max) return "a finite number";
      if (bounds.max == widest.max) return fmt::format("a number from {} up", number(bounds.min));
      if (bounds.min == widest.min) return fmt::format("a number up to {}", number(bounds.max));
      return fmt::format("a number from {} to {}", number(bounds.min), number(bounds.max));
    }
    default: {
      const Bounds bounds = bounds_of(field);
      const Bounds widest = type_limits(field);
      if (bounds.max == widest.max && bounds.min != 0 && bounds.min == widest.min)
        return "an integer";
      if (bounds.max > 1e15) return fmt::format("an integer from {} up", number(bounds.min));
      return fmt::format("an integer from {} to {}", number(bounds.min), number(bounds.max));
    }
  }
}

std::string describe_fields(const Descriptor& type, const std::string& given) {
  const std::vector<std::string> names = field_names(type);
  if (names.empty()) return "nothing: it has no fields";
  return fmt::format("one of the fields {}", fmt::join(names, ", ")) + did_you_mean(given, names);
}

}  // namespace orrery::emu
