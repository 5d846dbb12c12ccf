// "Did you mean …?": the known name nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::emu {

/// The candidate with the fewest edits (insert, delete, replace, swap; case ignored) to `word`, at
/// most a third of its length and at least one; empty if none is that near. The first of equals
/// wins.
std::string near_match(std::string_view word, const std::vector<std::string>& candidates);

/// The same as the end of a message: " (did you mean 'x'?)", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace orrery::emu
