#include "cli/sweep_comparison_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/comparison_table.h"

namespace orrery::cli {

namespace {

constexpr int kPointsShown = 5;

std::string ratio_text(double ratio) {
  return ratio == 0 ? fmt::format("{:>9}", "-") : fmt::format("{:>9.4f}", ratio);
}

std::string point_list(const std::string& title,
                       const google::protobuf::RepeatedPtrField<std::string>& points) {
  std::string out;
  for (int i = 0; i < std::min(kPointsShown, points.size()); ++i) {
    out += fmt::format("  {}: {}\n", title, points[i]);
  }
  if (points.size() > kPointsShown) {
    out += fmt::format("  {}: {} more\n", title, points.size() - kPointsShown);
  }
  return out;
}

// The end of each key that none of the others has: "packet_bytes" of "fabric.packet_bytes".
std::vector<std::string> short_names(const google::protobuf::RepeatedPtrField<std::string>& keys) {
  std::vector<std::string> names(keys.begin(), keys.end());
  const auto is_unique = [&keys](const std::string& end) {
    return std::count_if(keys.begin(), keys.end(), [&end](const std::string& key) {
             return key == end || key.ends_with("." + end);
           }) == 1;
  };
  for (std::string& name : names) {
    for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
      if (!is_unique(name.substr(dot + 1))) continue;
      name = name.substr(dot + 1);
      break;
    }
  }
  return names;
}

std::string operation_table(const SweepPair& pair, const OperationRatios& operation) {
  std::vector<std::string> names = short_names(pair.keys());
  if (names.empty()) names = {"point"};
  const auto value = [](const PointRatio& point, std::size_t i) {
    return point.values().empty() ? point.point() : point.values(static_cast<int>(i));
  };
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < names.size(); ++i) {
    widths.push_back(names[i].size());
    for (const PointRatio& point : operation.points()) {
      widths[i] = std::max(widths[i], value(point, i).size());
    }
  }
  std::string head;
  for (std::size_t i = 0; i < names.size(); ++i) {
    head += fmt::format("  {:<{}}", names[i], widths[i]);
  }
  std::string out = fmt::format("\nmax of {}, us\n{} {:>12} {:>12} {:>9}\n", operation.name(), head,
                                pair.first(), pair.other(), pair.other() + "/" + pair.first());
  double best = 0;
  double worst = 0;
  for (const PointRatio& point : operation.points()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      out += fmt::format("  {:<{}}", value(point, i), widths[i]);
    }
    out += fmt::format(" {:>12.3f} {:>12.3f} {}\n", point.first_max_us(), point.other_max_us(),
                       ratio_text(point.ratio()));
    if (point.point() == operation.best()) best = point.ratio();
    if (point.point() == operation.worst()) worst = point.ratio();
  }
  if (operation.best().empty()) return out;
  out += fmt::format("  geometric mean {:.4f}; least {:.4f} at {}; most {:.4f} at {}\n",
                     operation.geometric_mean(), best, operation.best(), worst, operation.worst());
  return out;
}

std::string pair_text(const SweepPair& pair) {
  std::string out = fmt::format("\n{} and {}: {} point{} in both\n", pair.first(), pair.other(),
                                pair.matched(), pair.matched() == 1 ? "" : "s");
  out += fmt::format("{} and {} {}\n", pair.first(), pair.other(), pair.statement());
  out += point_list(fmt::format("only in {}", pair.first()), pair.only_in_first());
  out += point_list(fmt::format("only in {}", pair.other()), pair.only_in_other());
  if (!pair.not_ok().empty()) {
    out += fmt::format("  left out, as one of them is not ok: {}\n", pair.not_ok_size());
  }
  if (pair.matched() > 0 && pair.unchanged() == pair.matched()) {
    out += "  changed nothing: all latencies of all points are equal\n";
  } else if (pair.unchanged() > 0) {
    out += fmt::format("  at {} of {} points nothing changed\n", pair.unchanged(), pair.matched());
  }
  for (const NoEffect& effect : pair.no_effect()) out += "  " + to_line(effect) + "\n";
  for (const OperationRatios& operation : pair.operations()) {
    out += operation_table(pair, operation);
  }
  return out;
}

std::string effect_table(const KeyEffect& effect) {
  std::string out = fmt::format("\n{}: ", effect.key());
  if (effect.pairs() == 0) {
    return out + "no two points differ in it alone\n";
  }
  out += fmt::format("max against {}={}, geometric mean of points that differ in it alone\n",
                     effect.key(), effect.first_value());
  if (!effect.also_differ().empty()) {
    out += fmt::format("  with it differ: {}; the ratios cannot be put down to one of them alone\n",
                       fmt::join(effect.also_differ(), ", "));
  }
  std::size_t width = 12;
  for (const ValueEffect& value : effect.values()) width = std::max(width, value.value().size());
  out += fmt::format("  {:<{}} {:>6}", "value", width, "points");
  for (const MeanRatio& operation : effect.values(0).operations()) {
    out += fmt::format(" {:>9} {:>16}", operation.name(), "(least, most)");
  }
  out += "\n";
  for (const ValueEffect& value : effect.values()) {
    out += fmt::format("  {:<{}} {:>6}", value.value(), width, value.pairs());
    for (const MeanRatio& operation : value.operations()) {
      out += operation.geometric_mean() == 0
                 ? fmt::format(" {:>9} {:>16}", "-", "")
                 : fmt::format(
                       " {:>9.4f} {:>16}", operation.geometric_mean(),
                       fmt::format("({:.3f}, {:.3f})", operation.smallest(), operation.largest()));
    }
    out += "\n";
  }
  if (effect.unchanged_pairs() == effect.pairs()) {
    out += fmt::format("  changed nothing in any of {} pair{} of points\n  {}\n", effect.pairs(),
                       effect.pairs() == 1 ? "" : "s", to_line(effect.no_effect()));
  } else if (effect.unchanged_pairs() > 0) {
    out += fmt::format("  changed nothing in {} of {} pairs of points\n", effect.unchanged_pairs(),
                       effect.pairs());
  }
  return out;
}

}  // namespace

std::string sweep_table(const Comparison& comparison) {
  std::string out;
  for (const SweepPair& pair : comparison.sweep_pairs()) out += pair_text(pair);
  if (!comparison.fixed_inputs().empty()) {
    out += "\nfixed:";
    for (const InputDifference& input : comparison.fixed_inputs()) {
      out += fmt::format(" {}={}", input.input(), input.values(0));
    }
    out += "\n";
  }
  for (const KeyEffect& effect : comparison.effects()) out += effect_table(effect);
  return out;
}

}  // namespace orrery::cli
