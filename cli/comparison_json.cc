#include "cli/comparison_json.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "emu/errors.h"

namespace orrery::cli {

std::string to_json(const Comparison& comparison) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(comparison, &text, options).ok()) {
    throw emu::InvariantError("a comparison does not print as JSON");
  }
  return nlohmann::ordered_json::parse(text).dump(2) + "\n";
}

}  // namespace orrery::cli
