#include "moe/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "emu/errors.h"
#include "moe/workload.h"

namespace orrery::moe {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

/// Lines of a stream in a buffer of fixed size, so that a file without line ends cannot fill the
/// memory.
class LineReader {
 public:
  LineReader(std::istream& in, std::string name)
      : in_(in),
        name_(std::move(name)),
        buffer_(std::make_unique_for_overwrite<char[]>(kMaxLineBytes + 1)) {}

  std::optional<std::string_view> next() {
    in_.getline(buffer_.get(), kMaxLineBytes + 1);
    auto bytes = static_cast<std::size_t>(in_.gcount());
    if (in_.bad()) throw emu::ConfigError(name_, "", "", "a file that can be read to its end");
    if (in_.fail() && bytes == 0) return std::nullopt;
    ++line_;
    if (in_.fail()) {
      throw emu::ConfigError(where(), "", "a longer line",
                             fmt::format("lines of at most {} bytes", kMaxLineBytes));
    }
    if (!in_.eof()) --bytes;  // the line end, counted but not stored
    return std::string_view(buffer_.get(), bytes);
  }
  std::string where() const { return fmt::format("{}:{}", name_, line_); }

 private:
  std::istream& in_;
  std::string name_;
  std::unique_ptr<char[]> buffer_;
  std::uint64_t line_ = 0;
};

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// One line's object, with errors that name the line.
class Record {
 public:
  Record(const LineReader& lines, std::string_view text)
      : where_(lines.where()), json_(Json::parse(text, nullptr, false)) {
    if (!json_.is_object()) {
      throw emu::ConfigError(where_, "", std::string(text.substr(0, 60)), "a JSON object");
    }
  }

  const Json* find(const char* field) const {
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& need(const char* field, const char* expectation) const {
    const Json* value = find(field);
    if (value == nullptr) throw emu::ConfigError(where_, field, "nothing", expectation);
    return *value;
  }
  [[noreturn]] void refuse(const std::string& field, const Json& value,
                           const std::string& expectation) const {
    throw emu::ConfigError(where_, field, text_of(value), expectation);
  }

  bool is_route(bool may_be_meta) const {
    const Json* type = find("type");
    if (type == nullptr && may_be_meta) return false;
    const char* expectation = "a string such as \"route\"";
    const Json& named = need("type", expectation);
    if (!named.is_string()) refuse("type", named, expectation);
    return named.get_ref<const std::string&>() == "route";
  }
  std::uint64_t layer() const {
    const char* expectation = "a layer number, 0 to 9999";
    const Json& value = need("layer", expectation);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 9999) {
      refuse("layer", value, expectation);
    }
    return value.get<std::uint64_t>();
  }
  /// Names of a token: not used, but a file whose names are wrong is not the format we think.
  void check_names() const {
    const Json* token = find("token_idx");
    if (token != nullptr && !token->is_number_unsigned()) {
      refuse("token_idx", *token, "a token number, from 0");
    }
    const Json* request = find("req_id");
    if (request != nullptr && !request->is_string() && !request->is_number_integer()) {
      refuse("req_id", *request, "a string or an integer");
    }
  }
  void append_ids(const Workload& workload, std::vector<std::int32_t>& ids) const {
    const Json& values = list("topk_ids", workload.top_k());
    const std::string expectation =
        fmt::format("an expert id, 0 to {}, or -1 for a masked entry", workload.experts() - 1);
    const std::size_t first = ids.size();
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Json& value = values[k];
      const bool masked = value.is_number_integer() && !value.is_number_unsigned() &&
                          value.get<std::int64_t>() == -1;
      if (!masked &&
          (!value.is_number_unsigned() || value.get<std::uint64_t>() >= workload.experts())) {
        refuse(fmt::format("topk_ids[{}]", k), value, expectation);
      }
      const std::int32_t id = masked ? -1 : value.get<std::int32_t>();
      if (!masked && !workload.gate().allow_duplicates() &&
          std::find(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), id) != ids.end()) {
        refuse(fmt::format("topk_ids[{}]", k), value,
               "distinct experts in a token (or gate.allow_duplicates)");
      }
      ids.push_back(id);
    }
  }
  void append_weights(std::uint32_t top_k, std::vector<float>& weights) const {
    if (find("topk_weights") == nullptr) {
      weights.insert(weights.end(), top_k, 1.0f / static_cast<float>(top_k));
      return;
    }
    const Json& values = list("topk_weights", top_k);
    for (std::size_t k = 0; k < values.size(); ++k) {
      // Within the bound the conversion to float is defined; NaN fails both comparisons.
      const double weight = values[k].is_number() ? values[k].get<double>() : -1;
      if (!(weight >= 0 && weight <= 1e6)) {
        refuse(fmt::format("topk_weights[{}]", k), values[k], "a number, 0 to 1e6");
      }
      weights.push_back(static_cast<float>(weight));
    }
  }

 private:
  const Json& list(const char* field, std::uint32_t top_k) const {
    const std::string expectation = fmt::format("a list of top_k ({}) numbers", top_k);
    const Json& values = need(field, expectation.c_str());
    if (!values.is_array() || values.size() != top_k) refuse(field, values, expectation);
    return values;
  }

  std::string where_;
  Json json_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Trace Trace::load(const Workload& workload) {
  const std::string& path = workload.gate().trace_file();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw emu::ConfigError(workload_label(workload), "gate.trace_file", path,
                           "a file, not a directory");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw emu::ConfigError(workload_label(workload), "gate.trace_file", path,
                           "a file that can be read");
  }
  return read(in, path, workload);
}

Trace Trace::read(std::istream& in, const std::string& name, const Workload& workload) {
  check_workload(workload, workload_label(workload));
  Trace trace(workload.experts(), workload.top_k());
  LineReader lines(in, name);
  std::set<std::uint64_t> layers;
  bool first = true;
  while (const auto line = lines.next()) {
    if (is_blank(*line)) continue;
    const Record record(lines, *line);
    const bool may_be_meta = std::exchange(first, false);
    if (!record.is_route(may_be_meta)) continue;
    record.check_names();
    const std::uint64_t layer = record.layer();
    layers.insert(layer);
    if (layer != workload.gate().trace_layer()) continue;
    record.append_ids(workload, trace.ids_);
    record.append_weights(workload.top_k(), trace.weights_);
  }
  if (trace.ids_.empty()) {
    std::string found = layers.empty() ? "no route" : "routes of layer";
    for (const std::uint64_t layer : layers) found += fmt::format(" {}", layer);
    throw emu::ConfigError(name, "layer", found,
                           fmt::format("at least one route of layer {} (gate.trace_layer)",
                                       workload.gate().trace_layer()));
  }
  return trace;
}

}  // namespace orrery::moe
