#include "emu/text_position.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace orrery::emu {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
         c == '+';
}

std::size_t word_end(std::string_view text, std::size_t at, std::size_t limit) {
  while (at < limit && is_word(text[at])) ++at;
  return at;
}

std::size_t string_end(std::string_view text, std::size_t at, std::size_t limit) {
  const char quote = text[at];
  for (++at; at < limit && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, limit);
}

// Reads as little of the syntax as it takes to know the open messages and the field before the
// offset.
class PathReader {
 public:
  void word(std::string_view text) {
    if (in_value_) {
      value_done();
    } else {
      field_ = text;
    }
  }
  void punctuation(char c) {
    switch (c) {
      case ':':
        in_value_ = true;
        break;
      case '{':
      case '<':
        open_.push_back({field_, in_list_});
        field_.clear();
        in_value_ = in_list_ = false;
        break;
      case '}':
      case '>':
        if (open_.empty()) break;
        in_list_ = open_.back().in_list;
        in_value_ = in_list_;
        field_ = in_list_ ? open_.back().field : std::string();
        open_.pop_back();
        break;
      case '[':
        in_list_ = in_value_;
        break;
      case ']':
        in_list_ = false;
        value_done();
        break;
      default:
        break;
    }
  }
  void value_done() {
    if (in_list_) return;
    in_value_ = false;
    field_.clear();
  }
  std::string path() const {
    std::string out;
    for (const Open& open : open_) out += open.field + '.';
    out += field_;
    if (!out.empty() && out.back() == '.') out.pop_back();
    return out;
  }

 private:
  struct Open {
    std::string field;
    bool in_list;
  };
  std::vector<Open> open_;
  std::string field_;
  bool in_value_ = false;
  bool in_list_ = false;
};

}  // namespace

std::size_t offset_of(std::string_view text, int line, int column) {
  std::size_t at = 0;
  for (int i = 0; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    ++at;
  }
  for (int reached = 0; reached < column && at < text.size() && text[at] != '\n'; ++at) {
    reached = text[at] == '\t' ? (reached / 8 + 1) * 8 : reached + 1;
  }
  return at;
}

std::string field_path_at(std::string_view text, std::size_t offset) {
  const std::size_t limit = std::min(offset, text.size());
  PathReader reader;
  for (std::size_t at = 0; at < limit;) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), limit);
    } else if (c == '"' || c == '\'') {
      at = string_end(text, at, limit);
      reader.value_done();
    } else if (is_word(c)) {
      const std::size_t end = word_end(text, at, limit);
      reader.word(text.substr(at, end - at));
      at = end;
    } else {
      reader.punctuation(c);
      ++at;
    }
  }
  return reader.path();
}

std::string word_at(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return "end of file";
  std::size_t end = word_end(text, offset, text.size());
  if (text[offset] == '"' || text[offset] == '\'') end = string_end(text, offset, text.size());
  return std::string(text.substr(offset, std::max<std::size_t>(end - offset, 1)));
}

}  // namespace orrery::emu
