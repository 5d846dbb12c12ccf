// A row of a picture of text: which letter takes most of each column's time.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "emu/time.h"

namespace orrery::cli {

struct Letter {
  const char* name;  // of a category of core time, or of a part of the critical path
  char letter;
};
inline constexpr Letter kLetters[] = {
    {"launch", 'l'},       {"host_sync", 'h'},   {"local_atomic", 'a'},  {"issue", 'i'},
    {"store_window", 'o'}, {"source_wait", 's'}, {"fence_stall", 'f'},   {"barrier_wait", 'b'},
    {"flag_wait", 'w'},    {"poll", 'p'},        {"remote_read", 'r'},   {"local_copy", 'c'},
    {"compute", 'x'},      {"idle", '.'},        {"serialisation", '='}, {"hop_latency", '>'},
    {"queueing", 'q'},     {"proxy_queue", 'y'}, {"nic_queue", 'n'},     {"peer_late", '_'},
    {"other", '?'}};
inline constexpr std::size_t kLetterCount = std::size(kLetters);

/// The index of the letter for a name; queueing_<link class> is queueing, an unknown name other.
std::size_t letter_of(std::string_view name);

class LetterRow {
 public:
  /// Columns that share [start, end) evenly.
  LetterRow(std::size_t columns, emu::Time start, emu::Time end)
      : columns_(static_cast<emu::Time>(columns)),
        start_(start),
        span_(end - start),
        times_(columns) {}

  /// [from, to), as far as it lies within the row, belongs to a letter.
  void add(std::size_t letter, emu::Time from, emu::Time to);
  /// The letter that takes most of a column, the first of equals; kLetterCount if none is there.
  std::size_t most(std::size_t column) const;

 private:
  emu::Time columns_;
  emu::Time start_;
  emu::Time span_;
  std::vector<std::array<emu::Time, kLetterCount>> times_;
};

}  // namespace orrery::cli
