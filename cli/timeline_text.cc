#include "cli/timeline_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/letter_row.h"

namespace orrery::cli {

namespace {

using devices::PathStep;
using emu::Recording;
using emu::Time;
using emu::TraceLevel;
using Core = std::pair<std::uint32_t, std::uint32_t>;  // device, core

constexpr std::size_t kMinColumns = 20;
constexpr std::size_t kMaxWidth = 1000;
constexpr std::size_t kTickColumns = 12;

// One operation in one iteration.
class Picture {
 public:
  Picture(const moe::RunOutcome& outcome, int operation, const TimelineStyle& style)
      : trace_(*outcome.trace),
        recording_(trace_.recording),
        operation_(outcome.result.operations(operation)),
        path_(outcome.paths[static_cast<std::size_t>(operation)]),
        style_(style) {
    for (const std::string& name : recording_.names) letters_.push_back(letter_of(name));
    for (const std::string& part : trace_.parts) part_letters_.push_back(letter_of(part));
    std::set<std::string> names;  // of the operation's kernels
    const devices::KernelRange stages = outcome.spans[static_cast<std::size_t>(operation)].stages;
    for (std::uint32_t i = stages.first; i <= stages.last; ++i) names.insert(outcome.spans[i].name);
    bool inside = false;
    for (const Recording::Span& span : recording_.spans) {
      if (span.level == TraceLevel::kOperation) {
        inside = span.iteration == operation_.slowest_iteration() &&
                 names.contains(recording_.names[span.name]);
        if (!inside) continue;
        start_ = std::min(start_, span.start);
        end_ = std::max(end_, span.end);
        cores_[{span.lp, span.track}];
      } else if (inside && span.level == TraceLevel::kActivity) {
        cores_[{span.lp, span.track}].push_back(&span);
      }
    }
  }

  /// Adds the letters that it uses to `used`.
  std::string text(std::set<std::size_t>& used) {
    std::string title =
        fmt::format("{}, iteration {}", operation_.name(), operation_.slowest_iteration());
    if (cores_.empty()) return title + ": nothing of it was recorded\n\n";
    set_widths();
    const std::vector<CoreRow> rows = choose_rows();
    const Time column = (end_ - start_) / static_cast<Time>(columns_);
    std::string out = fmt::format("{}: {:.3f} to {:.3f} us, {} ns a column\n", title,
                                  emu::to_us(start_), emu::to_us(end_), column / emu::kNanosecond);
    out += line("us", axis());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t device = rows[i].device;
      const bool first = i == 0 || rows[i - 1].device != device;
      const std::string name = first ? fmt::format("device {}", device) : "";
      out += line(fmt::format("{:{}}{}", name, device_width_, core_name(rows[i])),
                  cells(rows[i], used));
      if (i + 1 < rows.size() && rows[i + 1].device == device) continue;
      const std::string counts = arrivals(device);
      if (counts.find_first_not_of(' ') != std::string::npos) {
        out += line(fmt::format("{:{}}arrivals", "", device_width_), counts);
      }
    }
    out += path_rows(used);
    return out + not_shown(rows) + "\n";
  }

 private:
  // Cores of a device that look the same.
  struct CoreRow {
    std::uint32_t device;
    std::uint32_t first;
    std::uint32_t last;
    std::vector<std::size_t> letters;  // by column
    std::vector<bool> critical;        // is the path there?

    bool on_path() const {
      return std::find(critical.begin(), critical.end(), true) != critical.end();
    }
    std::uint32_t cores() const { return last - first + 1; }
  };

  // All cores if they fit. Else those of the devices that the critical path visits, cores of a
  // device that look the same in one row; of more rows, those that the path is on come first, then
  // the slowest device's.
  std::vector<CoreRow> choose_rows() const {
    std::set<std::uint32_t> visited = {path_.rank};
    for (const PathStep& step : path_.steps) visited.insert(step.rank);
    const bool all = cores_.size() <= style_.max_rows;
    std::vector<CoreRow> rows;
    for (const auto& [core, spans] : cores_) {
      if (!all && !visited.contains(core.first)) continue;
      CoreRow row = core_row(core);
      if (!all && !rows.empty() && rows.back().device == row.device &&
          rows.back().letters == row.letters && rows.back().critical == row.critical) {
        rows.back().last = row.last;
      } else {
        rows.push_back(std::move(row));
      }
    }
    if (rows.size() <= style_.max_rows) return rows;
    const auto rank = [this](const CoreRow& row) {
      return row.on_path() ? 0 : row.device == path_.rank ? 1 : 2;
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const CoreRow& a, const CoreRow& b) { return rank(a) < rank(b); });
    rows.resize(style_.max_rows);
    std::sort(rows.begin(), rows.end(), [](const CoreRow& a, const CoreRow& b) {
      return std::tie(a.device, a.first) < std::tie(b.device, b.first);
    });
    return rows;
  }

  std::string not_shown(const std::vector<CoreRow>& rows) const {
    std::set<std::uint32_t> devices;
    std::set<std::uint32_t> shown;
    std::size_t drawn = 0;
    for (const auto& [core, spans] : cores_) devices.insert(core.first);
    for (const CoreRow& row : rows) {
      shown.insert(row.device);
      drawn += row.cores();
    }
    if (drawn == cores_.size()) return {};
    return fmt::format(
        "{} of {} cores, on {} of {} devices, are drawn: those of the critical path first; --trace "
        "FILE has all\n",
        drawn, cores_.size(), shown.size(), devices.size());
  }

  static std::string core_name(const CoreRow& row) {
    if (row.first == row.last) return fmt::format("core {}", row.first);
    return fmt::format("cores {}-{}", row.first, row.last);
  }

  // The widest labels that there may be.
  void set_widths() {
    const Core last = cores_.rbegin()->first;
    std::uint32_t core = 0;
    for (const auto& [each, spans] : cores_) core = std::max(core, each.second);
    const bool all = cores_.size() <= style_.max_rows;
    device_width_ = fmt::format("device {} ", last.first).size();
    const std::size_t core_width =
        all ? fmt::format("core {}", core).size() : fmt::format("cores {}-{}", core, core).size();
    label_width_ = device_width_ + std::max(core_width, std::string_view("arrivals").size()) + 1;
    columns_ = std::max(style_.width, label_width_ + kMinColumns) - label_width_;
  }

  std::string line(const std::string& label, const std::string& cells) const {
    std::string out = fmt::format("{:{}}{}", label, label_width_, cells);
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  // Round numbers of microseconds, each behind a bar at its place.
  std::string axis() const {
    const Time least =
        (end_ - start_) * static_cast<Time>(kTickColumns) / static_cast<Time>(columns_);
    Time step = emu::kNanosecond;
    for (int i = 0; step < least; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    std::string out(columns_, ' ');
    for (Time tick = (start_ + step - 1) / step * step; tick < end_; tick += step) {
      const auto at =
          static_cast<std::size_t>((tick - start_) * static_cast<Time>(columns_) / (end_ - start_));
      const std::string mark = fmt::format("|{}", emu::to_us(tick));
      if (at + mark.size() <= out.size()) out.replace(at, mark.size(), mark);
    }
    return out;
  }

  char letter(std::size_t index, std::set<std::size_t>& used) const {
    if (index == kLetterCount) return ' ';
    used.insert(index);
    return kLetters[index].letter;
  }

  CoreRow core_row(const Core& core) const {
    LetterRow all(columns_, start_, end_);
    LetterRow critical(columns_, start_, end_);
    std::vector<const PathStep*> steps;
    for (const PathStep& step : path_.steps) {
      if (Core{step.rank, step.core} == core && step.source == step.rank) steps.push_back(&step);
    }
    for (const Recording::Span* span : cores_.at(core)) {
      all.add(letters_[span->name], span->start, span->end);
      for (const PathStep* step : steps) {
        const Time from = std::max(step->from, span->start);
        const Time to = std::min(step->to, span->end);
        if (from < to) critical.add(letters_[span->name], from, to);
      }
    }
    CoreRow row{core.first, core.second, core.second, {}, {}};
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::size_t on_path = critical.most(column);
      row.critical.push_back(on_path != kLetterCount);
      row.letters.push_back(row.critical.back() ? on_path : all.most(column));
    }
    return row;
  }

  std::string cells(const CoreRow& row, std::set<std::size_t>& used) const {
    std::string out;
    bool bold = false;
    for (std::size_t column = 0; column < columns_; ++column) {
      const bool on_path = row.critical[column];
      if (style_.colour && on_path != bold) out += on_path ? "\033[1;31m" : "\033[0m";
      bold = on_path;
      const char small = letter(row.letters[column], used);
      out += on_path ? static_cast<char>(std::toupper(small)) : small;
    }
    return style_.colour && bold ? out + "\033[0m" : out;
  }

  // How many puts became visible in each column.
  std::string arrivals(std::uint32_t device) const {
    std::vector<std::size_t> counts(columns_, 0);
    for (const Recording::Flow& flow : recording_.flows) {
      if (flow.to != device || flow.visible < start_ || flow.visible >= end_) continue;
      ++counts[static_cast<std::size_t>((flow.visible - start_) * static_cast<Time>(columns_) /
                                        (end_ - start_))];
    }
    std::string out;
    for (const std::size_t count : counts) {
      out += count == 0 ? ' ' : count > 9 ? '+' : static_cast<char>('0' + count);
    }
    return out;
  }

  // What the path consists of, and on which device it is.
  std::string path_rows(std::set<std::size_t>& used) const {
    LetterRow parts(columns_, start_, end_);
    for (const PathStep& step : path_.steps) {
      parts.add(part_letters_[step.part], step.from, step.to);
    }
    std::string kinds;
    for (std::size_t column = 0; column < columns_; ++column) {
      kinds += static_cast<char>(std::toupper(letter(parts.most(column), used)));
    }
    std::string places(columns_, ' ');
    std::uint32_t device = ~0u;
    bool flying = false;
    std::string mark;
    std::size_t step = 0;
    for (std::size_t column = 0; column < columns_; ++column) {
      const Time middle = start_ + (end_ - start_) * static_cast<Time>(2 * column + 1) /
                                       static_cast<Time>(2 * columns_);
      while (step < path_.steps.size() && path_.steps[step].to <= middle) ++step;
      if (step == path_.steps.size() || path_.steps[step].from > middle) continue;
      const PathStep& at = path_.steps[step];
      if (at.source != at.rank) {
        flying = true;
        mark.clear();
        places[column] = '>';
        continue;
      }
      if (flying || at.rank != device) mark = std::to_string(at.rank);
      flying = false;
      device = at.rank;
      places[column] = mark.empty() ? '-' : mark.front();
      if (!mark.empty()) mark.erase(0, 1);
    }
    return line("critical path", kinds) + line("  on device", places);
  }

  const moe::RunTrace& trace_;
  const Recording& recording_;
  const moe::Operation& operation_;
  const devices::CriticalPath& path_;
  const TimelineStyle& style_;
  std::vector<std::size_t> letters_;       // by name of the recording
  std::vector<std::size_t> part_letters_;  // by part of the path
  std::map<Core, std::vector<const Recording::Span*>> cores_;
  Time start_ = emu::kNever;
  Time end_ = 0;
  std::size_t device_width_ = 0;
  std::size_t label_width_ = 0;
  std::size_t columns_ = 0;
};

}  // namespace

std::string timeline_text(const moe::RunOutcome& outcome, const TimelineStyle& style) {
  std::set<std::size_t> used;
  std::string out;
  for (int operation = 0; operation < outcome.result.operations_size(); ++operation) {
    out += Picture(outcome, operation, style).text(used);
  }
  std::vector<std::string> legend;
  for (const std::size_t index : used) {
    std::string name = kLetters[index].name;
    std::replace(name.begin(), name.end(), '_', ' ');
    legend.push_back(fmt::format("{} {}", kLetters[index].letter, name));
  }
  out += fmt::format("{}\nCapitals: the critical path. Digits: puts that became visible.\n",
                     fmt::join(legend, ", "));
  return out;
}

TimelineStyle style_of_stdout(bool launched) {
  TimelineStyle style;
  const bool terminal = !launched && isatty(STDOUT_FILENO) != 0;
  style.colour = terminal && std::getenv("NO_COLOR") == nullptr;
  std::size_t width = 0;
  if (const char* columns = std::getenv("COLUMNS")) {
    const std::string_view text = columns;
    std::from_chars(text.data(), text.data() + text.size(), width);
  }
  winsize size{};
  if (width == 0 && terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  if (width > 0) style.width = std::min(width, kMaxWidth);
  return style;
}

}  // namespace orrery::cli
