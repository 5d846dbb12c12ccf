#include "cli/result_json.h"

#include <google/protobuf/util/json_util.h>

#include "emu/errors.h"

namespace orrery::cli {

namespace {
using Json = nlohmann::ordered_json;

// Protobuf prints maps in hash order: sort those, and only those, so that equal results are equal
// bytes.
void sort_keys(Json& object) {
  const nlohmann::json sorted = nlohmann::json::parse(object.dump());
  object = Json::parse(sorted.dump());
}
}  // namespace

Json to_json_object(const moe::Result& result) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(result, &text, options).ok()) {
    throw emu::InvariantError("a result does not print as JSON");
  }
  Json json = Json::parse(text);
  json["seed"] = result.seed();  // protobuf quotes 64-bit numbers
  for (const char* map : {"settings", "counters"}) {
    if (json.contains(map)) sort_keys(json[map]);
  }
  if (json.contains("model")) sort_keys(json["model"]["parts_us"]);
  if (result.explanations().empty()) json.erase("explanations");  // nobody asked
  for (Json& operation : json["operations"]) {
    for (const char* map : {"breakdown_us", "core_time_us"}) {
      if (operation.contains(map)) sort_keys(operation[map]);
    }
  }
  return json;
}

std::string to_json(const moe::Result& result) { return to_json_object(result).dump(2) + "\n"; }

}  // namespace orrery::cli
