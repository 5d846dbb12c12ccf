#include "emu/text_config.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "emu/errors.h"
#include "emu/field_rules.h"
#include "emu/options.pb.h"
#include "emu/text_position.h"

namespace orrery::emu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr std::size_t kLargestFile = 64u << 20;
constexpr int kDeepestNesting = 100;

// Keeps the first error: later ones are often its echo.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (found_) return;
    found_ = true;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  bool found_ = false;
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

// The field at a dotted path without indices; null if there is none.
const FieldDescriptor* find_field(const Descriptor* type, const std::string& path) {
  const FieldDescriptor* field = nullptr;
  for (std::size_t at = 0; type != nullptr;) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    field = type->FindFieldByName(path.substr(at, dot - at));
    if (field == nullptr || dot == path.size()) return field;
    type = field->message_type();
    at = dot + 1;
  }
  return nullptr;
}

// The n-th "quoted" part of one of protobuf's messages.
std::string quoted(const std::string& message, int n) {
  std::size_t open = message.find('"');
  std::size_t close = message.find('"', open + 1);
  for (int i = 0; i < n && close != std::string::npos; ++i) {
    open = message.find('"', close + 1);
    close = message.find('"', open + 1);
  }
  if (open == std::string::npos || close == std::string::npos) return "";
  return message.substr(open + 1, close - open - 1);
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (text.size() > 200) text.resize(200);
  while (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

// The word that the parser complains about, if it quotes it; the error's position is then one word
// late.
std::string culprit(const std::string& said) {
  if (contains(said, "boolean field") || contains(said, "has no field named"))
    return quoted(said, 1);
  if (contains(said, "enumeration value of") || contains(said, "is specified multiple times") ||
      contains(said, "is specified along with field")) {
    return quoted(said, 0);
  }
  return "";
}

// Turns what protobuf's parser says into Orrery's field, value and expectation.
ConfigError explain(const std::string& text, const std::string& name, const Descriptor* type,
                    const FirstError& error) {
  const std::string& said = error.message();
  std::size_t offset = offset_of(text, error.line(), error.column());
  const std::string word = culprit(said);
  if (const std::size_t at = text.rfind(word, offset); !word.empty() && at != std::string::npos)
    offset = at;
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const std::string where = name + ":" + std::to_string(line);
  const std::string path = field_path_at(text, offset);
  const std::string value = word.empty() ? word_at(text, offset) : word;

  if (contains(said, "has no field named")) {
    const Descriptor* parent = type->file()->pool()->FindMessageTypeByName(quoted(said, 0));
    return {where, path, value,
            parent != nullptr ? describe_fields(*parent, value) : "a known field"};
  }
  if (contains(said, "is specified multiple times"))
    return {where, path, value, "this field only once"};
  if (contains(said, "is specified along with field")) {
    return {where, path, value,
            fmt::format("nothing: '{}' of the same choice is given already", quoted(said, 1))};
  }
  const FieldDescriptor* field = find_field(type, path);
  const bool value_is_wrong =
      contains(said, "enumeration value") || contains(said, "boolean field") ||
      starts_with(said, "Integer out of") || starts_with(said, "Expected integer") ||
      starts_with(said, "Expected double") || starts_with(said, "Expected string");
  if (field != nullptr && value_is_wrong) return {where, path, value, describe(*field)};
  if (starts_with(said, "Expected ")) {
    const std::string wanted = said.substr(std::strlen("Expected "));
    return {where, path, value,
            printable(wanted.substr(0, std::min(wanted.find(", got"), wanted.find(", found"))))};
  }
  return {where, path, value, "text protobuf (" + printable(said) + ")"};
}

std::string read_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ConfigError(path, "", "a directory", "a text protobuf file");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr)
    throw ConfigError(path, "", std::strerror(errno), "a readable text protobuf file");
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kLargestFile) {
      throw ConfigError(path, "", "a larger file", "a text protobuf file of at most 64 MiB");
    }
  }
  if (std::ferror(file.get()) != 0) {
    throw ConfigError(path, "", std::strerror(errno), "a readable text protobuf file");
  }
  return text;
}

std::string shown(const Message& message, const FieldDescriptor& field, int index) {
  std::string value;
  TextFormat::PrintFieldValueToString(message, &field, index, &value);
  return value;
}

double numeric_value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& get = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? get.GetInt32(message, &field) : get.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? get.GetUInt32(message, &field) : get.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(one ? get.GetInt64(message, &field)
                                     : get.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(one ? get.GetUInt64(message, &field)
                                     : get.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return static_cast<double>(one ? get.GetFloat(message, &field)
                                     : get.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? get.GetDouble(message, &field) : get.GetRepeatedDouble(message, &field, index);
    default:
      return 0;
  }
}

bool is_numeric(const FieldDescriptor& field) {
  const auto type = field.cpp_type();
  return type != FieldDescriptor::CPPTYPE_MESSAGE && type != FieldDescriptor::CPPTYPE_STRING &&
         type != FieldDescriptor::CPPTYPE_ENUM && type != FieldDescriptor::CPPTYPE_BOOL;
}

void check_message(const Message& message, const std::string& prefix, const std::string& where);

// One value of a field: index -1 for a field that is not repeated.
void check_value(const Message& message, const FieldDescriptor& field, int index,
                 const std::string& path, const std::string& where) {
  const Reflection& get = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Message& inner = index < 0 ? get.GetMessage(message, &field)
                                     : get.GetRepeatedMessage(message, &field, index);
    check_message(inner, path + ".", where);
  } else if (is_numeric(field)) {
    const double value = numeric_value(message, field, index);
    const Bounds bounds = bounds_of(field);
    if (!std::isfinite(value) || value < bounds.min || value > bounds.max) {
      throw ConfigError(where, path, shown(message, field, index), describe(field));
    }
  }
}

void check_message(const Message& message, const std::string& prefix, const std::string& where) {
  const Reflection& get = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = prefix + std::string(field.name());
    const int count = field.is_repeated() ? get.FieldSize(message, &field) : 0;
    const bool present = field.is_repeated() ? count > 0 : get.HasField(message, &field);
    if (!present) {
      if (field.options().GetExtension(needed))
        throw ConfigError(where, path, "nothing", describe(field));
      continue;
    }
    if (!field.is_repeated()) check_value(message, field, -1, path, where);
    for (int j = 0; j < count; ++j) {
      check_value(message, field, j, path + "." + std::to_string(j), where);
    }
  }
}

}  // namespace

void load_text_file(const std::string& path, Message& message) {
  parse_text(read_file(path), path, message);
}

void parse_text(const std::string& text, const std::string& name, Message& message) {
  if (text.size() > kLargestFile) {
    throw ConfigError(name, "", "a larger text", "a text protobuf of at most 64 MiB");
  }
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kDeepestNesting);
  if (!parser.ParseFromString(text, &message)) {
    throw explain(text, name, message.GetDescriptor(), error);
  }
}

void check_ranges(const Message& message, const std::string& where) {
  check_message(message, "", where);
}

}  // namespace orrery::emu
