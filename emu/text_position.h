// Where in a text protobuf a parse error sits: the field around it and the word at it. Part of
// text_config.
#pragma once

#include <string>
#include <string_view>

namespace orrery::emu {

/// Byte offset of a zero-based line and column as protobuf's tokenizer counts them (a tab advances
/// to the next multiple of 8); the end of the text if beyond it.
std::size_t offset_of(std::string_view text, int line, int column);

/// Dotted path of the field that is being read at `offset`, e.g. "fabric.clos.nodes"; without the
/// last part between two fields. A best effort for error messages: any bytes are fine.
std::string field_path_at(std::string_view text, std::size_t offset);

/// The word, number or character at `offset`; "end of file" at the end.
std::string word_at(std::string_view text, std::size_t offset);

}  // namespace orrery::emu
