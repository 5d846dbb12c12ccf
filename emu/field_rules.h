// What a field of a schema accepts, in words for error messages. Part of text_config.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace orrery::emu {

/// Inclusive bounds of a numeric field: its (range) option, narrowed by its type.
struct Bounds {
  double min;
  double max;
};
Bounds bounds_of(const google::protobuf::FieldDescriptor& field);

/// "an integer from 1 to 65536", "one of DEVICE_PAIR, NONE", "true or false", "a message { nodes,
/// planes }".
std::string describe(const google::protobuf::FieldDescriptor& field);

/// "one of the fields nodes, planes (did you mean 'planes'?)".
std::string describe_fields(const google::protobuf::Descriptor& type, const std::string& given);

}  // namespace orrery::emu
