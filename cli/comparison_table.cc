#include "cli/comparison_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "cli/sweep_comparison_table.h"

namespace orrery::cli {

namespace {

constexpr std::size_t kNameWidth = 24;
constexpr int kLinksShown = 3;
constexpr int kFailuresShown = 5;

// A column as wide as what stands in it, at least `least`.
std::size_t width_of(const InputDifference& input, std::size_t column, std::size_t least) {
  return std::max(least, input.values(static_cast<int>(column)).size());
}

std::string input_table(const Comparison& comparison) {
  if (comparison.inputs().empty()) return "";
  const auto columns = static_cast<std::size_t>(comparison.compared_size());
  std::vector<std::size_t> widths(columns, 10);
  std::size_t name_width = kNameWidth;
  for (const InputDifference& input : comparison.inputs()) {
    name_width = std::max(name_width, input.input().size() + 2);
    for (std::size_t i = 0; i < columns; ++i) widths[i] = width_of(input, i, widths[i]);
  }
  std::string out = fmt::format("\n{:<{}}", "inputs that differ", name_width);
  for (std::size_t i = 0; i < columns; ++i) {
    out += fmt::format("  {:>{}}", comparison.compared(static_cast<int>(i)).label(), widths[i]);
  }
  out += "\n";
  for (const InputDifference& input : comparison.inputs()) {
    out += fmt::format("  {:<{}}", input.input(), name_width - 2);
    for (std::size_t i = 0; i < columns; ++i) {
      out += fmt::format("  {:>{}}", input.values(static_cast<int>(i)), widths[i]);
    }
    out += "\n";
  }
  return out;
}

std::string statements(const Comparison& comparison) {
  std::string out = "\n";
  for (const ResultPair& pair : comparison.pairs()) {
    out += fmt::format("{} and {} {}\n", pair.first(), pair.other(), pair.statement());
    const bool anything =
        !pair.same_latencies() || !pair.same_digest() || !pair.same_output_digest();
    if (pair.differing_inputs().empty() || !pair.same_latencies()) continue;
    out += fmt::format("  changed nothing: all latencies are equal, {}\n",
                       !anything            ? "events and output bytes too"
                       : pair.same_digest() ? "all events too; output bytes differ"
                                            : "but not all events");
    for (const NoEffect& effect : pair.no_effect()) out += "  " + to_line(effect) + "\n";
  }
  return out;
}

const OperationChange* find(const ResultPair& pair, const std::string& operation) {
  for (const OperationChange& each : pair.operations()) {
    if (each.name() == operation) return &each;
  }
  return nullptr;
}

// Latencies of all, then the ratios of each to the first.
std::string latency_table(const Comparison& comparison) {
  std::string out = fmt::format("\n{:<{}}", "latency us", kNameWidth);
  for (const Compared& each : comparison.compared()) out += fmt::format(" {:>12}", each.label());
  for (const ResultPair& pair : comparison.pairs()) {
    out += fmt::format(" {:>8}", pair.other() + "/" + pair.first());
  }
  out += "\n";
  std::vector<std::string> names;
  for (const ResultPair& pair : comparison.pairs()) {
    for (const OperationChange& operation : pair.operations()) {
      if (std::find(names.begin(), names.end(), operation.name()) == names.end()) {
        names.push_back(operation.name());
      }
    }
  }
  for (const std::string& name : names) {
    const auto has = [&name](const ResultPair& pair) { return find(pair, name) != nullptr; };
    const auto some = std::find_if(comparison.pairs().begin(), comparison.pairs().end(), has);
    for (int i = 0; i < find(*some, name)->latency_us_size(); ++i) {
      const Change& first = find(*some, name)->latency_us(i);
      out += fmt::format("  {:<{}}{:<6} {:>12.3f}", i == 0 ? name : "", kNameWidth - 8,
                         first.name(), first.first());
      std::string ratios;
      for (const ResultPair& pair : comparison.pairs()) {
        const OperationChange* operation = find(pair, name);
        out += operation == nullptr ? fmt::format(" {:>12}", "-")
                                    : fmt::format(" {:>12.3f}", operation->latency_us(i).other());
        ratios += operation == nullptr || operation->latency_us(i).ratio() == 0
                      ? fmt::format(" {:>8}", "-")
                      : fmt::format(" {:>8.4f}", operation->latency_us(i).ratio());
      }
      out += ratios + "\n";
    }
  }
  for (const ResultPair& pair : comparison.pairs()) {
    if (pair.operations_of_one().empty()) continue;
    out += fmt::format("  not in both {} and {}: {}\n", pair.first(), pair.other(),
                       fmt::join(pair.operations_of_one(), ", "));
  }
  return out;
}

std::string head(const std::string& title, const ResultPair& pair, const std::string& last) {
  const std::string line = fmt::format("\n{:<{}} {:>12} {:>12} {:>12}", title, kNameWidth,
                                       pair.first(), pair.other(), "change");
  return line + (last.empty() ? "\n" : fmt::format(" {:>10}\n", last));
}

std::string breakdown(const ResultPair& pair, const OperationChange& operation) {
  if (operation.breakdown_us().empty()) return "";
  std::string out = head(fmt::format("why max of {}, us", operation.name()), pair, "of change");
  for (const PartChange& part : operation.breakdown_us()) {
    out += fmt::format("  {:<{}} {:>12.3f} {:>12.3f} {:>+12.3f}", part.name(), kNameWidth - 2,
                       part.first_us(), part.other_us(), part.change_us());
    if (operation.change_of_max_us() != 0) out += fmt::format(" {:>8.1f} %", part.share_percent());
    out += "\n";
  }
  const Change& max = operation.latency_us(operation.latency_us_size() - 1);
  out += fmt::format("  {:<{}} {:>12.3f} {:>12.3f} {:>+12.3f}",
                     operation.equal_parts() == 0
                         ? "max"
                         : fmt::format("max ({} part{} equal)", operation.equal_parts(),
                                       operation.equal_parts() == 1 ? "" : "s"),
                     kNameWidth - 2, max.first(), max.other(), operation.change_of_max_us());
  if (operation.first_slowest_device() != operation.other_slowest_device() ||
      operation.first_slowest_iteration() != operation.other_slowest_iteration()) {
    out += fmt::format("   device {}, iteration {} -> device {}, iteration {}",
                       operation.first_slowest_device(), operation.first_slowest_iteration(),
                       operation.other_slowest_device(), operation.other_slowest_iteration());
  }
  return out + "\n";
}

std::string core_times(const ResultPair& pair) {
  std::string lines;
  for (const OperationChange& operation : pair.operations()) {
    for (const Change& change : operation.core_time_us()) {
      lines += fmt::format("  {:<10} {:<{}} {:>12.3f} {:>12.3f} {:>+12.3f}\n", operation.name(),
                           change.name(), kNameWidth - 13, change.first(), change.other(),
                           change.change());
    }
  }
  return lines.empty() ? "" : head("mean core time us", pair, "") + lines;
}

std::string counters(const ResultPair& pair) {
  if (pair.counters().empty()) {
    return fmt::format("\ncounters: all {} are equal\n", pair.equal_counters());
  }
  std::string out = head(fmt::format("counters ({} equal)", pair.equal_counters()), pair, "ratio");
  for (const Change& change : pair.counters()) {
    out += fmt::format("  {:<{}} {:>12.0f} {:>12.0f} {:>+12.0f}", change.name(), kNameWidth - 2,
                       change.first(), change.other(), change.change());
    out += change.ratio() == 0 ? "\n" : fmt::format(" {:>10.4f}\n", change.ratio());
  }
  return out;
}

std::string links(const ResultPair& pair) {
  if (pair.busiest_links().empty()) return "";
  std::string out = "\nbusiest links that changed\n";
  const auto share = [](double busy_share, double queueing_us) {
    return busy_share == 0 ? fmt::format("{:>22}", "not among the busiest")
                           : fmt::format("{:>5.1f} % {:>11.3f} us", 100 * busy_share, queueing_us);
  };
  int shown = 0;
  for (const LinkChange& link : pair.busiest_links()) {
    if (shown++ == kLinksShown) break;
    out += fmt::format("  {:<36} {}: {}   {}: {}\n", link.name(), pair.first(),
                       share(link.first_busy_share(), link.first_queueing_us()), pair.other(),
                       share(link.other_busy_share(), link.other_queueing_us()));
  }
  if (pair.busiest_links_size() > kLinksShown) {
    out += fmt::format("  {} more\n", pair.busiest_links_size() - kLinksShown);
  }
  return out;
}

std::string failures(const Compared& compared) {
  if (compared.verified()) return "";
  const std::string label =
      compared.points() > 0 ? "not ok in " + compared.label() : "NOT VERIFIED: " + compared.label();
  if (compared.failures().empty()) return label + "\n";
  std::string out;
  for (int i = 0; i < std::min(kFailuresShown, compared.failures_size()); ++i) {
    out += label + ": " + compared.failures(i) + "\n";
  }
  if (compared.failures_size() > kFailuresShown) {
    out += fmt::format("{}: {} more\n", label, compared.failures_size() - kFailuresShown);
  }
  return out;
}

std::string pair_text(const ResultPair& pair) {
  std::string out;
  for (const OperationChange& operation : pair.operations()) out += breakdown(pair, operation);
  out += core_times(pair) + counters(pair) + links(pair);
  return out + fmt::format("event digests {}, output digests {}\n",
                           pair.same_digest() ? "are equal" : "differ",
                           pair.same_output_digest() ? "are equal" : "differ");
}

}  // namespace

std::string to_line(const NoEffect& effect) {
  const char* could = effect.could() == NoEffect::COULD_NOT ? " could not have: "
                      : effect.could() == NoEffect::COULD   ? " could have: "
                                                            : ": ";
  return effect.input() + could + effect.reason();
}

std::string to_table(const Comparison& comparison) {
  std::string out;
  for (const Compared& each : comparison.compared()) {
    out += fmt::format("{}  {}: {}\n", each.label(), each.file(), each.title());
  }
  for (const std::string& warning : comparison.warnings()) out += "warning: " + warning + "\n";
  for (const Compared& each : comparison.compared()) out += failures(each);
  if (comparison.pairs().empty()) return out + sweep_table(comparison);
  out += input_table(comparison) + statements(comparison) + latency_table(comparison);
  for (const ResultPair& pair : comparison.pairs()) {
    if (comparison.pairs_size() > 1) {
      out += fmt::format("\n--- {} against {} ---\n", pair.other(), pair.first());
    }
    out += pair_text(pair);
  }
  return out;
}

}  // namespace orrery::cli
