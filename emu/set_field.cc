// set_field() of text_config.h: "--set path.to.field=value".
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <string_view>
#include <type_traits>

#include "emu/errors.h"
#include "emu/field_rules.h"
#include "emu/text_config.h"

namespace orrery::emu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// The place a value goes to: a plain field, one more element of a list, or an element there is.
struct Slot {
  static constexpr int kPlain = -1;
  static constexpr int kAppend = -2;
  Message& message;
  const FieldDescriptor& field;
  int index;
};

template <typename Value, typename Set, typename Add, typename Replace>
void store(const Slot& slot, const Value& value, Set set, Add add, Replace replace) {
  const Reflection& reflection = *slot.message.GetReflection();
  if (slot.index == Slot::kPlain) {
    (reflection.*set)(&slot.message, &slot.field, value);
  } else if (slot.index == Slot::kAppend) {
    (reflection.*add)(&slot.message, &slot.field, value);
  } else {
    (reflection.*replace)(&slot.message, &slot.field, slot.index, value);
  }
}

class Setter {
 public:
  Setter(const std::string& field, const std::string& value, const std::string& where)
      : path_(field), value_(value), where_(where) {}

  void apply(Message& root) const {
    const std::vector<std::string> parts = split(path_, '.');
    Message* message = &root;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool last = i + 1 == parts.size();
      const FieldDescriptor& field = find(*message, parts[i]);
      const bool nested = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      refuse_other_choice(*message, field);
      if (field.is_repeated()) {
        if (last) return set_list(*message, field);
        const int index = element(*message, field, parts[++i]);
        if (!nested) {
          if (i + 1 != parts.size()) fail_at(parts[i + 1], "no further part of the path");
          return set_scalar({*message, field, index}, value_);
        }
        if (i + 1 == parts.size()) fail_at(value_, "a field inside it: " + describe(field));
        message = message->GetReflection()->MutableRepeatedMessage(message, &field, index);
      } else if (nested) {
        if (last) fail_at(value_, "a field inside it: " + describe(field));
        message = message->GetReflection()->MutableMessage(message, &field);
      } else {
        if (!last) fail_at(parts[i + 1], fmt::format("the path to end at '{}'", parts[i]));
        return set_scalar({*message, field, Slot::kPlain}, value_);
      }
    }
  }

 private:
  [[noreturn]] void fail_at(const std::string& got, const std::string& expectation) const {
    throw ConfigError(where_, path_, got, expectation);
  }

  const FieldDescriptor& find(const Message& message, const std::string& name) const {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) fail_at(name, describe_fields(*message.GetDescriptor(), name));
    return *field;
  }

  // Setting another member of a choice (e.g. another generator) would silently drop the one in use.
  void refuse_other_choice(const Message& message, const FieldDescriptor& field) const {
    const google::protobuf::OneofDescriptor* choice = field.containing_oneof();
    if (choice == nullptr) return;
    const FieldDescriptor* current =
        message.GetReflection()->GetOneofFieldDescriptor(message, choice);
    if (current == nullptr || current == &field) return;
    fail_at(value_, fmt::format("a field of '{}', the {} in use: '{}' would replace it",
                                std::string(current->name()), std::string(choice->name()),
                                std::string(field.name())));
  }

  int element(const Message& message, const FieldDescriptor& field, const std::string& text) const {
    const int size = message.GetReflection()->FieldSize(message, &field);
    int index = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size() || index < 0 || index >= size) {
      fail_at(text, size == 0 ? fmt::format("no element: '{}' is empty", std::string(field.name()))
                              : fmt::format("an element number from 0 to {}", size - 1));
    }
    return index;
  }

  void set_list(Message& message, const FieldDescriptor& field) const {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      fail_at(value_, fmt::format("an element and a field inside it, e.g. '{}.0.{}'", path_,
                                  field.message_type()->field_count() > 0
                                      ? std::string(field.message_type()->field(0)->name())
                                      : "field"));
    }
    message.GetReflection()->ClearField(&message, &field);
    // Enumerations may have a NONE of their own.
    if (value_ == "none" && field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return;
    for (const std::string& part : split(value_, ','))
      set_scalar({message, field, Slot::kAppend}, part);
  }

  template <typename T>
  T number(const FieldDescriptor& field, const std::string& text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = !text.empty() && error == std::errc() && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
    const Bounds bounds = bounds_of(field);
    good = good && static_cast<double>(value) >= bounds.min &&
           static_cast<double>(value) <= bounds.max;
    if (!good) fail_at(text, describe(field));
    return value;
  }

  bool truth(const FieldDescriptor& field, const std::string& text) const {
    const std::string word = upper(text);
    if (word == "TRUE" || word == "1") return true;
    if (word != "FALSE" && word != "0") fail_at(text, describe(field));
    return false;
  }

  const EnumValueDescriptor* enum_value(const FieldDescriptor& field,
                                        const std::string& text) const {
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      const EnumValueDescriptor* value = field.enum_type()->value(i);
      if (upper(std::string(value->name())) == upper(text)) return value;
    }
    fail_at(text, describe(field));
  }

  void set_scalar(const Slot& slot, const std::string& text) const {
    using R = Reflection;
    const FieldDescriptor& field = slot.field;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return store(slot, number<std::int32_t>(field, text), &R::SetInt32, &R::AddInt32,
                     &R::SetRepeatedInt32);
      case FieldDescriptor::CPPTYPE_UINT32:
        return store(slot, number<std::uint32_t>(field, text), &R::SetUInt32, &R::AddUInt32,
                     &R::SetRepeatedUInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return store(slot, number<std::int64_t>(field, text), &R::SetInt64, &R::AddInt64,
                     &R::SetRepeatedInt64);
      case FieldDescriptor::CPPTYPE_UINT64:
        return store(slot, number<std::uint64_t>(field, text), &R::SetUInt64, &R::AddUInt64,
                     &R::SetRepeatedUInt64);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return store(slot, number<float>(field, text), &R::SetFloat, &R::AddFloat,
                     &R::SetRepeatedFloat);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return store(slot, number<double>(field, text), &R::SetDouble, &R::AddDouble,
                     &R::SetRepeatedDouble);
      case FieldDescriptor::CPPTYPE_BOOL:
        return store(slot, truth(field, text), &R::SetBool, &R::AddBool, &R::SetRepeatedBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return store(slot, enum_value(field, text), &R::SetEnum, &R::AddEnum, &R::SetRepeatedEnum);
      case FieldDescriptor::CPPTYPE_STRING:
        return store(slot, text, &R::SetString, &R::AddString, &R::SetRepeatedString);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;  // handled by the walk
    }
  }

  const std::string& path_;
  const std::string& value_;
  const std::string& where_;
};

}  // namespace

void set_field(Message& message, const std::string& field, const std::string& value,
               const std::string& where) {
  // On a copy, so that a refused value leaves no half-made messages behind.
  const std::unique_ptr<Message> changed(message.New());
  changed->CopyFrom(message);
  Setter(field, value, where).apply(*changed);
  message.GetReflection()->Swap(&message, changed.get());
}

}  // namespace orrery::emu
