#include "cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/no_effect.h"
#include "cli/result_inputs.h"
#include "cli/shipped_values.h"
#include "cli/sweep_comparison.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace {

using Times = google::protobuf::Map<std::string, double>;
using moe::Latency;
using moe::Operation;
using moe::Result;

// Results are printed in microseconds with six decimals, so this is what they were.
std::int64_t to_ps(double us) { return std::llround(us * 1e6); }
double to_us(std::int64_t ps) { return static_cast<double>(ps) / 1e6; }

double value_of(const Times& map, const std::string& name) {
  const auto it = map.find(name);
  return it == map.end() ? 0 : it->second;
}

std::vector<std::string> names_of(const Times& first, const Times& other) {
  std::map<std::string, double> names(first.begin(), first.end());
  names.insert(other.begin(), other.end());
  std::vector<std::string> sorted;
  for (const auto& [name, value] : names) sorted.push_back(name);
  return sorted;
}

Change make_change(const std::string& name, double first, double other, double change) {
  Change out;
  out.set_name(name);
  out.set_first(first);
  out.set_other(other);
  out.set_change(change);
  out.set_ratio(first == 0 ? 0 : other / first);
  return out;
}

Change make_time_change(const std::string& name, double first_us, double other_us) {
  return make_change(name, first_us, other_us, to_us(to_ps(other_us) - to_ps(first_us)));
}

const Operation* find_operation(const Result& result, const std::string& name) {
  for (const Operation& operation : result.operations()) {
    if (operation.name() == name) return &operation;
  }
  return nullptr;
}

using Statistic = double (Latency::*)() const;
const std::pair<const char*, Statistic> kStatistics[] = {{"min", &Latency::min},
                                                         {"mean", &Latency::mean},
                                                         {"p50", &Latency::p50},
                                                         {"p99", &Latency::p99},
                                                         {"max", &Latency::max}};

// The parts of a critical path that moved, largest first, and what makes them sum to `change`.
void add_parts(const Times& first, const Times& other, std::int64_t change, OperationChange& out) {
  struct Part {
    std::string name;
    std::int64_t first, other;
    std::int64_t change() const { return other - first; }
  };
  std::vector<Part> parts;
  std::int64_t sum = 0;
  for (const std::string& name : names_of(first, other)) {
    parts.push_back({name, to_ps(value_of(first, name)), to_ps(value_of(other, name))});
    sum += parts.back().change();
  }
  if (sum != change) parts.push_back({"not in the breakdown", 0, change - sum});
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::abs(a.change()) > std::abs(b.change());
  });
  for (const Part& part : parts) {
    if (part.change() == 0) {
      out.set_equal_parts(out.equal_parts() + 1);
      continue;
    }
    PartChange& moved = *out.add_breakdown_us();
    moved.set_name(part.name);
    moved.set_first_us(to_us(part.first));
    moved.set_other_us(to_us(part.other));
    moved.set_change_us(to_us(part.change()));
    if (change != 0) {
      moved.set_share_percent(100 * static_cast<double>(part.change()) /
                              static_cast<double>(change));
    }
  }
}

// A step of the whole model as an operation: one latency, its parts as the breakdown.
Operation step_of(const Result& result) {
  const moe::ModelTime& model = result.model();
  const double us = model.has_ttft_us() ? model.ttft_us() : model.tpot_us();
  Operation step;
  step.set_name("step of the model");
  Latency& latency = *step.mutable_latency_us();
  latency.set_min(us);
  latency.set_mean(us);
  latency.set_p50(us);
  latency.set_p99(us);
  latency.set_max(us);
  *step.mutable_breakdown_us() = model.parts_us();
  return step;
}

OperationChange compare_operation(const Operation& first, const Operation& other) {
  OperationChange out;
  out.set_name(first.name());
  const Latency& a = first.latency_us();
  const Latency& b = other.latency_us();
  for (const auto& [name, statistic] : kStatistics) {
    *out.add_latency_us() = make_time_change(name, (a.*statistic)(), (b.*statistic)());
  }
  const std::int64_t change = to_ps(b.max()) - to_ps(a.max());
  out.set_change_of_max_us(to_us(change));
  add_parts(first.breakdown_us(), other.breakdown_us(), change, out);
  std::vector<Change> core_times;
  for (const std::string& name : names_of(first.core_time_us(), other.core_time_us())) {
    const Change moved = make_time_change(name, value_of(first.core_time_us(), name),
                                          value_of(other.core_time_us(), name));
    if (moved.change() != 0) core_times.push_back(moved);
  }
  std::stable_sort(core_times.begin(), core_times.end(), [](const Change& x, const Change& y) {
    return std::abs(x.change()) > std::abs(y.change());
  });
  for (const Change& moved : core_times) *out.add_core_time_us() = moved;
  out.set_first_slowest_device(first.slowest_device());
  out.set_first_slowest_iteration(first.slowest_iteration());
  out.set_other_slowest_device(other.slowest_device());
  out.set_other_slowest_iteration(other.slowest_iteration());
  return out;
}

void compare_counters(const Result& first, const Result& other, ResultPair& pair) {
  for (const std::string& name : names_of(first.counters(), other.counters())) {
    const double a = value_of(first.counters(), name);
    const double b = value_of(other.counters(), name);
    if (a == b) {
      pair.set_equal_counters(pair.equal_counters() + 1);
    } else {
      *pair.add_counters() = make_change(name, a, b, b - a);
    }
  }
}

// Links in the order of the larger share; those that are busy alike in both are left out.
void compare_links(const Result& first, const Result& other, ResultPair& pair) {
  std::map<std::string, LinkChange> links;
  for (const moe::BusyLink& link : first.busiest_links()) {
    LinkChange& change = links[link.name()];
    change.set_first_busy_share(link.busy_share());
    change.set_first_queueing_us(link.queueing_us());
  }
  for (const moe::BusyLink& link : other.busiest_links()) {
    LinkChange& change = links[link.name()];
    change.set_other_busy_share(link.busy_share());
    change.set_other_queueing_us(link.queueing_us());
  }
  std::vector<LinkChange> moved;
  for (auto& [name, change] : links) {
    change.set_name(name);
    if (change.first_busy_share() != change.other_busy_share() ||
        to_ps(change.first_queueing_us()) != to_ps(change.other_queueing_us())) {
      moved.push_back(change);
    }
  }
  const auto busier = [](const LinkChange& link) {
    return std::max(link.first_busy_share(), link.other_busy_share());
  };
  std::stable_sort(moved.begin(), moved.end(),
                   [&](const LinkChange& a, const LinkChange& b) { return busier(a) > busier(b); });
  for (const LinkChange& link : moved) *pair.add_busiest_links() = link;
}

std::string title_of(const Result& result) {
  return fmt::format("{} on {} device{} of {}, workload {}, {} tokens, {} iteration{}, seed {}",
                     result.algorithm(), result.devices(), result.devices() == 1 ? "" : "s",
                     result.topology(), result.workload(), result.tokens(), result.iterations(),
                     result.iterations() == 1 ? "" : "s", result.seed());
}

// File names may hold any bytes, JSON only UTF-8.
std::string to_utf8(const std::string& bytes) {
  using Json = nlohmann::json;
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void add_compared(const ResultFile& file, const std::string& label, Comparison& comparison) {
  Compared& out = *comparison.add_compared();
  out.set_label(label);
  out.set_file(to_utf8(file.name));
  if (file.is_sweep) {
    for (const PointRecord& point : file.points) {
      if (point.outcome() == "ok") {
        out.set_points_ok(out.points_ok() + 1);
        continue;
      }
      std::string why = point.error();
      if (why.empty() && !point.result().failures().empty()) why = point.result().failures(0);
      why.resize(std::min(why.find('\n'), why.size()));
      out.add_failures(fmt::format("{}: {}{}{}", point_name(point), point.outcome(),
                                   why.empty() ? "" : ": ", why));
    }
    out.set_points(static_cast<std::uint32_t>(file.points.size()));
    out.set_verified(out.points_ok() == out.points());
    out.set_title(fmt::format("{} point{}, {} ok", out.points(), out.points() == 1 ? "" : "s",
                              out.points_ok()));
  } else {
    out.set_title(title_of(file.result));
    out.set_verified(file.result.verified());
    *out.mutable_failures() = file.result.failures();
    out.set_digest(file.result.digest());
    out.set_output_digest(file.result.output_digest());
  }
  for (const std::string& warning : file.warnings) comparison.add_warnings(to_utf8(warning));
}

std::string label_of(std::size_t index) {
  constexpr std::size_t kLetters = 26;
  const std::string letter(1, static_cast<char>('A' + index % kLetters));
  return index < kLetters ? letter : letter + std::to_string(index / kLetters);
}

}  // namespace

bool same_latencies(const Result& first, const Result& other) {
  if (first.has_model() != other.has_model()) return false;
  if (to_ps(step_of(first).latency_us().max()) != to_ps(step_of(other).latency_us().max()))
    return false;
  if (first.operations_size() != other.operations_size()) return false;
  return std::all_of(
      first.operations().begin(), first.operations().end(), [&](const Operation& operation) {
        const Operation* match = find_operation(other, operation.name());
        return match != nullptr &&
               std::all_of(std::begin(kStatistics), std::end(kStatistics), [&](const auto& each) {
                 return to_ps((operation.latency_us().*each.second)()) ==
                        to_ps((match->latency_us().*each.second)());
               });
      });
}

ResultPair compare_pair(const std::string& first_label, const Result& first,
                        const std::string& other_label, const Result& other) {
  ResultPair pair;
  pair.set_first(first_label);
  pair.set_other(other_label);
  for (const std::string& name : differing_inputs({&first, &other})) {
    pair.add_differing_inputs(name);
  }
  pair.set_same_digest(first.digest() == other.digest());
  pair.set_same_output_digest(first.output_digest() == other.output_digest());
  pair.set_same_latencies(same_latencies(first, other));
  const bool same = pair.same_digest() && pair.same_output_digest() && pair.same_latencies();
  pair.set_statement(
      conclusion({pair.differing_inputs().begin(), pair.differing_inputs().end()}, same));
  for (const Operation& operation : first.operations()) {
    const Operation* match = find_operation(other, operation.name());
    if (match == nullptr) {
      pair.add_operations_of_one(operation.name());
    } else {
      *pair.add_operations() = compare_operation(operation, *match);
    }
  }
  for (const Operation& operation : other.operations()) {
    if (find_operation(first, operation.name()) == nullptr) {
      pair.add_operations_of_one(operation.name());
    }
  }
  if (first.has_model() && other.has_model()) {
    *pair.add_operations() = compare_operation(step_of(first), step_of(other));
  }
  compare_counters(first, other, pair);
  compare_links(first, other, pair);
  if (pair.same_latencies()) {
    for (const std::string& input : pair.differing_inputs()) {
      *pair.add_no_effect() = explain_no_effect(input, first, other);
    }
  }
  return pair;
}

Comparison compare(const std::vector<ResultFile>& files) {
  const bool sweeps = files.front().is_sweep;
  for (const ResultFile& file : files) {
    if (file.is_sweep != sweeps) {
      throw emu::ConfigError(
          file.name, "", file.is_sweep ? "a sweep" : "a result",
          fmt::format("{} as {} is", sweeps ? "a sweep" : "a result", files.front().name));
    }
  }
  if (!sweeps && files.size() < 2) {
    throw emu::ConfigError("orrery compare", "", files.front().name,
                           "two results or more, or a sweep");
  }
  Comparison comparison;
  for (std::size_t i = 0; i < files.size(); ++i) add_compared(files[i], label_of(i), comparison);
  if (sweeps) {
    if (files.size() == 1) {
      look_into(files.front(), comparison);
    } else {
      for (std::size_t i = 1; i < files.size(); ++i) {
        *comparison.add_sweep_pairs() =
            compare_sweeps(label_of(0), files[0], label_of(i), files[i]);
      }
    }
    return comparison;
  }
  std::vector<const Result*> results;
  for (const ResultFile& file : files) results.push_back(&file.result);
  for (const std::string& name : differing_inputs(results)) {
    InputDifference& difference = *comparison.add_inputs();
    difference.set_input(name);
    for (const Result* result : results) difference.add_values(value_or_shipped(*result, name));
  }
  for (std::size_t i = 1; i < files.size(); ++i) {
    *comparison.add_pairs() = compare_pair(label_of(0), *results[0], label_of(i), *results[i]);
  }
  return comparison;
}

}  // namespace orrery::cli
