#include "cli/point_record.h"

#include "cli/result_json.h"
#include "emu/errors.h"

namespace orrery::cli {

std::string to_line(const PointRecord& record) {
  nlohmann::ordered_json json = {{"key", record.key()},
                                 {"varied", nlohmann::ordered_json::array()},
                                 {"outcome", record.outcome()},
                                 {"error", record.error()}};
  for (const Varied& varied : record.varied())
    json["varied"].push_back({{"name", varied.name()}, {"value", varied.value()}});
  if (record.has_result()) json["result"] = to_json_object(record.result());
  // Names and messages may hold any bytes; a line is UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

nlohmann::json parse_line(const std::string& line, const std::string& where) {
  nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto is_text = [&](const char* name) {
    return json.contains(name) && json[name].is_string();
  };
  const bool right = json.is_object() && is_text("key") && is_text("outcome") && is_text("error") &&
                     json.contains("varied") && json["varied"].is_array();
  if (!right) throw emu::ConfigError(where, "", line.substr(0, 40), "a finished point of a sweep");
  return json;
}

}  // namespace orrery::cli
