#include "cli/result_file.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "emu/errors.h"
#include "emu/field_rules.h"

namespace orrery::cli {

namespace fs = std::filesystem;
using emu::ConfigError;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::json;

namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 30;
constexpr char kPointsFile[] = "points.jsonl";
constexpr char kSweepFile[] = "sweep.json";
constexpr char kExpected[] = "a result of orrery run --json, or a sweep's folder or points.jsonl";

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) throw ConfigError(path, "", std::strerror(errno), kExpected);
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kLargestFile) {
      throw ConfigError(path, "", "a larger file", "at most 1 GiB");
    }
  }
  if (std::ferror(file.get()) != 0) throw ConfigError(path, "", std::strerror(errno), kExpected);
  return text;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// --- What protobuf says, as field, value and expectation ---

std::string type_in_words(const std::string& type) {
  if (type == "TYPE_STRING") return "text";
  if (type == "TYPE_BOOL") return "true or false";
  if (type == "TYPE_DOUBLE") return "a number";
  if (type == "TYPE_UINT32") return "a whole number from 0 to 4294967295";
  if (type == "TYPE_UINT64") return "a whole number from 0 to 18446744073709551615";
  const std::size_t dot = type.rfind('.');
  return dot == std::string::npos ? "another kind of value"
                                  : "an object with the fields of " + type.substr(dot + 1);
}

// The message type at a path such as "operations[0].latency_us" of `type`.
const Descriptor* type_at(const Descriptor* type, const std::string& path) {
  for (std::size_t at = 0; type != nullptr && at < path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    std::string name = path.substr(at, end - at);
    name.resize(std::min(name.find('['), name.size()));
    const FieldDescriptor* field = type->FindFieldByName(name);
    type = field == nullptr ? nullptr : field->message_type();
    at = end + 1;
  }
  return type;
}

// "(operations[0]) zzz: Cannot find field.", "fabrik: Cannot find field." and
// "(devices): invalid value -1 for type TYPE_UINT32".
ConfigError explain(const std::string& said, const std::string& where, const Descriptor* type) {
  constexpr std::string_view kUnknown = ": Cannot find field.";
  constexpr std::string_view kInvalid = "): invalid value ";
  constexpr std::string_view kForType = " for type ";
  const std::size_t unknown = said.find(kUnknown);
  const std::size_t close = said.find(')');
  const bool has_path = !said.empty() && said[0] == '(' && close != std::string::npos;
  const std::string path = has_path ? said.substr(1, close - 1) : "";
  if (unknown != std::string::npos) {
    const std::size_t begin = has_path ? std::min(close + 2, unknown) : 0;
    const std::string field = said.substr(begin, unknown - begin);
    const Descriptor* parent = type_at(type, path);
    return {where, path, field,
            parent == nullptr ? "a known field" : emu::describe_fields(*parent, field)};
  }
  const std::size_t for_type = said.rfind(kForType);
  if (has_path && said.compare(close, kInvalid.size(), kInvalid) == 0 &&
      for_type != std::string::npos && for_type > close + kInvalid.size()) {
    const std::size_t begin = close + kInvalid.size();
    return {where, path, said.substr(begin, for_type - begin),
            type_in_words(said.substr(for_type + kForType.size()))};
  }
  return {where, path, said.substr(0, said.find('\n')), kExpected};
}

template <typename Message>
Message parse_message(const std::string& text, const std::string& where) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message);
  if (!status.ok()) throw explain(std::string(status.message()), where, message.GetDescriptor());
  return message;
}

// --- What a schema cannot say ---

void check_number(double value, const std::string& field, const std::string& where) {
  // What is compared is rounded to picoseconds: far above any run, far below 2^63.
  if (!std::isfinite(value) || value < 0 || value > 1e12) {
    throw ConfigError(where, field, fmt::format("{}", value), "a number from 0 to 1e12");
  }
}

void check_map(const google::protobuf::Map<std::string, double>& map, const std::string& field,
               const std::string& where) {
  double sum = 0;
  for (const auto& [name, value] : map) {
    check_number(value, field + "." + name, where);
    sum += value;
  }
  check_number(sum, "sum of " + field, where);
}

void check_result(const moe::Result& result, const std::string& where, const std::string& prefix) {
  if (result.operations().empty()) {
    throw ConfigError(where, prefix + "operations", "nothing", "at least one operation");
  }
  std::set<std::string> names;
  for (int i = 0; i < result.operations_size(); ++i) {
    const moe::Operation& operation = result.operations(i);
    const std::string field = fmt::format("{}operations[{}]", prefix, i);
    if (operation.name().empty()) {
      throw ConfigError(where, field + ".name", "nothing", "the name of an operation");
    }
    if (!names.insert(operation.name()).second) {
      throw ConfigError(where, field + ".name", operation.name(), "each operation only once");
    }
    const moe::Latency& latency = operation.latency_us();
    check_number(latency.min(), field + ".latency_us.min", where);
    check_number(latency.mean(), field + ".latency_us.mean", where);
    check_number(latency.p50(), field + ".latency_us.p50", where);
    check_number(latency.p99(), field + ".latency_us.p99", where);
    check_number(latency.max(), field + ".latency_us.max", where);
    check_map(operation.breakdown_us(), field + ".breakdown_us", where);
    check_map(operation.core_time_us(), field + ".core_time_us", where);
  }
  if (result.digest().empty() || result.output_digest().empty()) {
    throw ConfigError(where, prefix + (result.digest().empty() ? "digest" : "output_digest"),
                      "nothing", "the digest of a run");
  }
  for (const auto& [name, value] : result.counters()) {
    if (!std::isfinite(value)) {
      throw ConfigError(where, prefix + "counters." + name, fmt::format("{}", value), "a number");
    }
  }
  for (int i = 0; i < result.busiest_links_size(); ++i) {
    const moe::BusyLink& link = result.busiest_links(i);
    const std::string field = fmt::format("{}busiest_links[{}]", prefix, i);
    check_number(link.busy_share(), field + ".busy_share", where);
    check_number(link.queueing_us(), field + ".queueing_us", where);
  }
}

PointRecord to_point(const std::string& line, const std::string& where) {
  const auto point = parse_message<PointRecord>(line, where);
  const std::vector<std::string> outcomes = {"ok", "not verified", "hang", "error"};
  if (std::find(outcomes.begin(), outcomes.end(), point.outcome()) == outcomes.end()) {
    throw ConfigError(where, "outcome", point.outcome(), "ok, not verified, hang or error");
  }
  if (point.key().empty()) throw ConfigError(where, "key", "nothing", "the key of a point");
  if (point.outcome() == "ok" || point.outcome() == "not verified") {
    check_result(point.result(), where, "result.");
  }
  return point;
}

// Nothing if `text` is one JSON value; else nlohmann's reason and the byte it stopped at.
std::string syntax_error(const std::string& text, Json& json, std::size_t& at) {
  try {
    json = Json::parse(text);
    return "";
  } catch (const Json::parse_error& error) {
    at = std::min(error.byte, text.size());
    const std::string said = error.what();
    const std::size_t reason = said.find("column");
    const std::size_t colon = reason == std::string::npos ? reason : said.find(": ", reason);
    return colon == std::string::npos ? said : said.substr(colon + 2);
  } catch (const Json::exception& error) {  // a number beyond all doubles
    at = text.size();
    return error.what();
  }
}

bool is_point(const Json& json) {
  return json.is_object() && (json.contains("outcome") || json.contains("key"));
}

ConfigError not_json(const std::string& text, const std::string& name, std::size_t at,
                     const std::string& reason) {
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return {fmt::format("{}:{}", name, line), "", reason, kExpected};
}

void read_points(const std::string& text, ResultFile& file) {
  std::set<std::string> keys;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (is_blank(line)) continue;
    const std::string where = fmt::format("{}:{}", file.name, number);
    Json json;
    std::size_t at = 0;
    const std::string reason = syntax_error(line, json, at);
    if (!reason.empty()) {
      if (end < text.size()) throw ConfigError(where, "", reason, "a point of a sweep as JSON");
      file.warnings.push_back(where + ": a torn last line is ignored");
      continue;
    }
    PointRecord point = to_point(line, where);
    if (!keys.insert(point.key()).second) {
      throw ConfigError(where, "key", point.key(), "each point only once");
    }
    file.points.push_back(std::move(point));
  }
  if (file.points.empty()) throw ConfigError(file.name, "", "no finished point", kExpected);
  std::stable_sort(file.points.begin(), file.points.end(),
                   [&file](const auto& a, const auto& b) { return file.order.is_before(a, b); });
}

}  // namespace

ResultFile parse_result_file(const std::string& text, const std::string& name,
                             const std::string& sweep_json) {
  ResultFile file;
  file.name = name;
  if (is_blank(text)) throw ConfigError(name, "", "an empty file", kExpected);
  Json whole;
  std::size_t at = 0;
  const std::string reason = syntax_error(text, whole, at);
  if (reason.empty() && !is_point(whole)) {
    if (!whole.is_object()) throw ConfigError(name, "", whole.type_name(), kExpected);
    file.result = parse_message<moe::Result>(text, name);
    check_result(file.result, name, "");
    return file;
  }
  // More than one value: a sweep, if its first line is a point.
  Json first;
  std::size_t ignored = 0;
  const bool lines =
      reason.empty() ||
      (syntax_error(text.substr(0, text.find('\n')), first, ignored).empty() && is_point(first));
  if (!lines) throw not_json(text, name, at, reason);
  file.is_sweep = true;
  file.order = SweepOrder(sweep_json);
  if (reason.empty()) {
    file.points.push_back(to_point(text, name));
  } else {
    read_points(text, file);
  }
  return file;
}

ResultFile load_result_file(const std::string& path) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error)) {
    file /= kPointsFile;
    if (!fs::exists(file, error)) {
      throw ConfigError(path, "", std::string("a folder without ") + kPointsFile, kExpected);
    }
  }
  const fs::path sweep = file.parent_path() / kSweepFile;
  const bool has_order = file.filename() == kPointsFile && fs::is_regular_file(sweep, error);
  return parse_result_file(read_file(file.string()), file.string(),
                           has_order ? read_file(sweep.string()) : "");
}

std::string point_name(const PointRecord& point) {
  std::string name;
  for (const Varied& varied : point.varied()) {
    name += (name.empty() ? "" : " ") + varied.name() + "=" + varied.value();
  }
  return name.empty() ? point.key() : name;
}

}  // namespace orrery::cli
