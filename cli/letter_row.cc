#include "cli/letter_row.h"

#include <algorithm>

namespace orrery::cli {

using emu::Time;

std::size_t letter_of(std::string_view name) {
  for (std::size_t i = 0; i < kLetterCount; ++i) {
    const std::string_view known = kLetters[i].name;
    if (name == known || (known == "queueing" && name.starts_with("queueing_"))) return i;
  }
  return kLetterCount - 1;
}

void LetterRow::add(std::size_t letter, Time from, Time to) {
  from = std::max(from, start_);
  to = std::min(to, start_ + span_);
  if (from >= to) return;
  for (Time column = (from - start_) * columns_ / span_; column < columns_; ++column) {
    const Time begin = start_ + span_ * column / columns_;
    const Time end = start_ + span_ * (column + 1) / columns_;
    if (begin >= to) break;
    times_[static_cast<std::size_t>(column)][letter] +=
        std::max<Time>(0, std::min(to, end) - std::max(from, begin));
  }
}

std::size_t LetterRow::most(std::size_t column) const {
  const auto& times = times_[column];
  const auto it = std::max_element(times.begin(), times.end());
  return *it == 0 ? kLetterCount : static_cast<std::size_t>(it - times.begin());
}

}  // namespace orrery::cli
