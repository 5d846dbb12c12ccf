#include "cli/sweep_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cli/comparison.h"
#include "cli/no_effect.h"
#include "cli/result_inputs.h"

namespace orrery::cli {

namespace {

using moe::Operation;
using moe::Result;

bool is_ok(const PointRecord& point) { return point.outcome() == "ok"; }

// What was varied, whatever its order; a point without any is known by its key.
std::string identity(const PointRecord& point) {
  std::map<std::string, std::string> varied;
  for (const Varied& each : point.varied()) varied[each.name()] = each.value();
  std::string text;
  for (const auto& [name, value] : varied) text += name + "=" + value + "\n";
  return text.empty() ? point.key() : text;
}

std::string value_of(const PointRecord& point, const std::string& key) {
  for (const Varied& varied : point.varied()) {
    if (varied.name() == key) return varied.value();
  }
  return kNotSet;
}

std::optional<double> max_us(const Result& result, const std::string& operation) {
  for (const Operation& each : result.operations()) {
    if (each.name() == operation) return each.latency_us().max();
  }
  return std::nullopt;
}

double geometric_mean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return ratios.empty() ? 0 : std::exp(sum / static_cast<double>(ratios.size()));
}

struct Match {
  const PointRecord* first;
  const PointRecord* other;
};

OperationRatios ratios_of(const std::string& operation, const std::vector<std::string>& keys,
                          const std::vector<Match>& matches) {
  OperationRatios out;
  out.set_name(operation);
  std::vector<double> ratios;
  double best = 0;
  double worst = 0;
  for (const Match& match : matches) {
    const auto first = max_us(match.first->result(), operation);
    const auto other = max_us(match.other->result(), operation);
    if (!first || !other) continue;
    PointRatio& point = *out.add_points();
    point.set_point(point_name(*match.first));
    for (const std::string& key : keys) point.add_values(value_of(*match.first, key));
    point.set_first_max_us(*first);
    point.set_other_max_us(*other);
    if (*first == 0 || *other == 0) continue;
    const double ratio = *other / *first;
    point.set_ratio(ratio);
    if (ratios.empty() || ratio < best) {
      best = ratio;
      out.set_best(point.point());
    }
    if (ratios.empty() || ratio > worst) {
      worst = ratio;
      out.set_worst(point.point());
    }
    ratios.push_back(ratio);
  }
  out.set_geometric_mean(geometric_mean(ratios));
  return out;
}

// Names of operations in the order in which they are first met.
std::vector<std::string> operations_of(const std::vector<const PointRecord*>& points) {
  std::vector<std::string> names;
  for (const PointRecord* point : points) {
    for (const Operation& operation : point->result().operations()) {
      if (std::find(names.begin(), names.end(), operation.name()) == names.end()) {
        names.push_back(operation.name());
      }
    }
  }
  return names;
}

// --- One sweep ---

class KeyStudy {
 public:
  KeyStudy(const std::string& key, const SweepOrder& order,
           const std::vector<const PointRecord*>& points)
      : key_(key), operations_(operations_of(points)) {
    for (const PointRecord* point : points) {
      const std::string value = value_of(*point, key);
      if (std::find(values_.begin(), values_.end(), value) == values_.end()) {
        values_.push_back(value);
      }
      groups_[others(*point)][value] = point;
    }
    std::sort(values_.begin(), values_.end(), [&](const std::string& a, const std::string& b) {
      return order.is_before(key, a, b);
    });
  }

  KeyEffect effect() {
    KeyEffect out;
    out.set_key(key_);
    out.set_first_value(values_.front());
    for (const std::string& value : values_) add_value(value, out);
    for (const std::string& name : also_differ_) out.add_also_differ(name);
    if (out.pairs() > 0 && out.unchanged_pairs() == out.pairs()) {
      *out.mutable_no_effect() = explain_no_effect(key_, pairs_);
    }
    return out;
  }

 private:
  // The point with all other keys.
  std::string others(const PointRecord& point) const {
    PointRecord rest = point;
    rest.clear_varied();
    for (const Varied& varied : point.varied()) {
      if (varied.name() != key_) *rest.add_varied() = varied;
    }
    return rest.varied().empty() ? "" : identity(rest);
  }

  void add_value(const std::string& value, KeyEffect& out) {
    ValueEffect& effect = *out.add_values();
    effect.set_value(value);
    std::map<std::string, std::vector<double>> ratios;
    for (const auto& [rest, points] : groups_) {
      const auto base = points.find(values_.front());
      const auto point = points.find(value);
      if (base == points.end() || point == points.end()) continue;
      const Result& first = base->second->result();
      const Result& other = point->second->result();
      effect.set_pairs(effect.pairs() + 1);
      for (const std::string& operation : operations_) {
        const auto a = max_us(first, operation);
        const auto b = max_us(other, operation);
        if (a && b && *a > 0 && *b > 0) ratios[operation].push_back(*b / *a);
      }
      if (base != point) judge(first, other, out);
    }
    for (const std::string& operation : operations_) {
      const std::vector<double>& all = ratios[operation];
      MeanRatio& mean = *effect.add_operations();
      mean.set_name(operation);
      mean.set_geometric_mean(geometric_mean(all));
      if (all.empty()) continue;
      mean.set_smallest(*std::min_element(all.begin(), all.end()));
      mean.set_largest(*std::max_element(all.begin(), all.end()));
    }
  }

  void judge(const Result& first, const Result& other, KeyEffect& out) {
    out.set_pairs(out.pairs() + 1);
    for (const std::string& name : differing_inputs({&first, &other})) {
      if (name != key_) also_differ_.insert(name);
    }
    if (!same_latencies(first, other)) return;
    out.set_unchanged_pairs(out.unchanged_pairs() + 1);
    pairs_.emplace_back(&first, &other);
  }

  const std::string key_;
  const std::vector<std::string> operations_;
  std::vector<std::string> values_;
  std::map<std::string, std::map<std::string, const PointRecord*>> groups_;
  std::set<std::string> also_differ_;
  std::vector<ResultPointers> pairs_;  // in which nothing changed
};

}  // namespace

SweepPair compare_sweeps(const std::string& first_label, const ResultFile& first,
                         const std::string& other_label, const ResultFile& other) {
  SweepPair pair;
  pair.set_first(first_label);
  pair.set_other(other_label);
  std::map<std::string, const PointRecord*> of_other;
  for (const PointRecord& point : other.points) of_other.emplace(identity(point), &point);
  std::vector<Match> matches;
  for (const PointRecord& point : first.points) {
    const auto it = of_other.find(identity(point));
    if (it == of_other.end()) {
      pair.add_only_in_first(point_name(point));
      continue;
    }
    const PointRecord& match = *it->second;
    of_other.erase(it);
    if (is_ok(point) && is_ok(match)) {
      matches.push_back({&point, &match});
      continue;
    }
    std::string what;
    if (!is_ok(point)) what = fmt::format("{} in {}", point.outcome(), first_label);
    if (!is_ok(match)) {
      what += fmt::format("{}{} in {}", what.empty() ? "" : ", ", match.outcome(), other_label);
    }
    pair.add_not_ok(point_name(point) + ": " + what);
  }
  for (const PointRecord& point : other.points) {
    const auto it = of_other.find(identity(point));
    if (it != of_other.end() && it->second == &point) pair.add_only_in_other(point_name(point));
  }
  if (!matches.empty()) {
    for (const Varied& varied : matches.front().first->varied()) pair.add_keys(varied.name());
  }
  pair.set_matched(static_cast<std::uint32_t>(matches.size()));
  std::vector<std::string> differing;
  std::vector<const PointRecord*> points;
  std::map<std::string, std::vector<ResultPointers>> differing_in;
  bool same_digests = true;
  for (const Match& match : matches) {
    points.push_back(match.first);
    const Result& a = match.first->result();
    const Result& b = match.other->result();
    const bool same = same_latencies(a, b);
    if (same) pair.set_unchanged(pair.unchanged() + 1);
    same_digests =
        same_digests && same && a.digest() == b.digest() && a.output_digest() == b.output_digest();
    for (const std::string& name : differing_inputs({&a, &b})) {
      if (std::find(differing.begin(), differing.end(), name) == differing.end()) {
        differing.push_back(name);
      }
      differing_in[name].emplace_back(&a, &b);
    }
  }
  for (const std::string& name : differing) pair.add_differing_inputs(name);
  pair.set_statement(matches.empty() ? "have no point in common that is ok in both"
                                     : conclusion(differing, same_digests));
  for (const std::string& operation : operations_of(points)) {
    *pair.add_operations() =
        ratios_of(operation, {pair.keys().begin(), pair.keys().end()}, matches);
  }
  if (pair.unchanged() == pair.matched()) {
    for (const std::string& name : differing) {
      *pair.add_no_effect() = explain_no_effect(name, differing_in[name]);
    }
  }
  return pair;
}

void look_into(const ResultFile& sweep, Comparison& comparison) {
  std::vector<const PointRecord*> points;
  std::vector<std::string> keys;
  for (const PointRecord& point : sweep.points) {
    if (!is_ok(point)) continue;
    points.push_back(&point);
    for (const Varied& varied : point.varied()) {
      if (std::find(keys.begin(), keys.end(), varied.name()) == keys.end()) {
        keys.push_back(varied.name());
      }
    }
  }
  if (points.empty()) return;
  std::vector<const Result*> results;
  for (const PointRecord* point : points) results.push_back(&point->result());
  const std::vector<std::string> differing = differing_inputs(results);
  for (const auto& [name, value] : inputs_of(*results.front())) {
    if (std::find(differing.begin(), differing.end(), name) != differing.end()) continue;
    InputDifference& input = *comparison.add_fixed_inputs();
    input.set_input(name);
    input.add_values(value);
  }
  for (const std::string& key : keys)
    *comparison.add_effects() = KeyStudy(key, sweep.order, points).effect();
}

}  // namespace orrery::cli
