// The values of a varied key as typed: "8,16,32", "1:256:*2", "0-3;0,2,4,6".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace orrery::cli {

/// A sweep has at most so many points, and a key so many values.
constexpr std::size_t kMostPoints = 100'000;

/// The values in `text`, in order, as text. Commas separate them; where a semicolon stands,
/// semicolons do, and a value may contain commas. A value that begins with a digit and holds a
/// colon is a range of whole numbers, both ends included as far as the steps meet them:
/// first:last (step 1), first:last:step, first:last:+step, first:last:*factor. Throws ConfigError
/// (naming `where` and `key`) for an empty or malformed value and for more than kMostPoints.
std::vector<std::string> parse_values(const std::string& where, const std::string& key,
                                      const std::string& text);

}  // namespace orrery::cli
