#include "cli/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace orrery::cli {

namespace {

std::vector<std::pair<double, std::string>> by_size(
    const google::protobuf::Map<std::string, double>& map) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [name, value] : map) parts.emplace_back(value, name);
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  return parts;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

// "counters: name value, …" without those that are zero, in lines that fit a terminal.
std::string counters_text(const google::protobuf::Map<std::string, double>& counters) {
  constexpr std::size_t kWidth = 100;
  const std::map<std::string, double> sorted(counters.begin(), counters.end());
  std::string out;
  std::string line = "counters:";
  for (const auto& [name, value] : sorted) {
    if (value <= 0) continue;
    const std::string item = fmt::format(" {} {:.0f},", name, value);
    if (line.size() + item.size() > kWidth) {
      out += line + "\n";
      line = "         ";
    }
    line += item;
  }
  if (line.back() == ',') line.pop_back();
  return out + line + "\n";
}

// What a step of the model takes, what it is made of, and what was emulated of it.
std::string model_text(const moe::ModelTime& model) {
  const bool decode = model.has_tpot_us();
  const double time = decode ? model.tpot_us() : model.ttft_us();
  std::string out = fmt::format("\n{} {:.3f} us\n",
                                decode ? "time per output token" : "time to first token", time);
  for (const auto& [value, name] : by_size(model.parts_us())) {
    out += fmt::format("  {:<24} {:>12.3f} {:>6.1f} %\n", name, value,
                       time > 0 ? 100 * value / time : 0);
  }
  out += fmt::format("  {:<24} {:>12.3f}\n", "sum", time);
  out += fmt::format("  {}", model.extrapolation());
  const auto [least, most] = std::minmax_element(model.layer_us().begin(), model.layer_us().end());
  out += fmt::format("\n  a layer: mean {:.3f}, {:.3f} to {:.3f} us", model.mean_layer_us(), *least,
                     *most);
  if (model.emulated_layers() < model.layers()) {
    out += fmt::format("; were all others as the shortest or the longest: {:.3f} to {:.3f} us",
                       model.least_us(), model.most_us());
  }
  return out + "\n";
}

}  // namespace

std::string check_text(const moe::Check& check) {
  if (check.findings().empty()) {
    return fmt::format("check: clean ({:.0f} accesses)\n", check.accesses());
  }
  std::string out;
  for (const moe::OrderFinding& finding : check.findings()) {
    out += "check: " + finding.text() + "\n";
  }
  if (check.kinds_left_out() > 0) {
    out += fmt::format("check: {:.0f} more\n", check.kinds_left_out());
  }
  return out;
}

std::string to_table(const moe::Result& result) {
  std::string out =
      fmt::format("{} on {} of {}, workload {}, {} tokens per device, {} iteration{}, seed {}\n\n",
                  result.algorithm(),
                  fmt::format("{} device{}", result.devices(), result.devices() == 1 ? "" : "s"),
                  result.topology(), result.workload(), result.tokens(), result.iterations(),
                  result.iterations() == 1 ? "" : "s", result.seed());
  out += fmt::format("{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}   {:>10} {:>10}\n", "latency us",
                     "min", "mean", "p50", "p99", "max", "useful", "on wire");
  for (const moe::Operation& operation : result.operations()) {
    const moe::Latency& latency = operation.latency_us();
    out += fmt::format("{:<10} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}   {:>10} {:>10}\n",
                       operation.name(), latency.min(), latency.mean(), latency.p50(),
                       latency.p99(), latency.max(), bytes_text(operation.bytes_useful()),
                       bytes_text(operation.bytes_on_wire()));
  }
  if (result.has_model()) out += model_text(result.model());
  for (const moe::Operation& operation : result.operations()) {
    const double max = operation.latency_us().max();
    out += fmt::format("\nwhy {:.3f} us: critical path of {} (device {}, iteration {})\n", max,
                       operation.name(), operation.slowest_device(), operation.slowest_iteration());
    double sum = 0;
    for (const auto& [value, name] : by_size(operation.breakdown_us())) {
      out += fmt::format("  {:<24} {:>10.3f} {:>6.1f} %\n", name, value,
                         max > 0 ? 100 * value / max : 0);
      sum += value;
    }
    out += fmt::format("  {:<24} {:>10.3f}\n", "sum", sum);
  }
  out += fmt::format("\n{:<20}", "mean core time us");
  std::vector<std::string> categories;
  for (const moe::Operation& operation : result.operations()) {
    out += fmt::format(" {:>10}", operation.name());
    for (const auto& [name, value] : operation.core_time_us()) {
      if (std::find(categories.begin(), categories.end(), name) == categories.end())
        categories.push_back(name);
    }
  }
  std::sort(categories.begin(), categories.end());
  out += "\n";
  for (const std::string& category : categories) {
    out += fmt::format("  {:<18}", category);
    for (const moe::Operation& operation : result.operations()) {
      const auto it = operation.core_time_us().find(category);
      out += fmt::format(" {:>10.3f}", it == operation.core_time_us().end() ? 0.0 : it->second);
    }
    out += "\n";
  }
  out += "\n" + counters_text(result.counters());
  if (result.busiest_links_size() > 0) {
    const moe::BusyLink& link = result.busiest_links(0);
    out += fmt::format("busiest link: {}, {:.1f} % busy, {}, {:.3f} us of queueing\n", link.name(),
                       100 * link.busy_share(), bytes_text(link.bytes()), link.queueing_us());
  }
  for (const std::string& note : result.notes()) out += "note: " + note + "\n";
  if (result.has_check()) out += check_text(result.check());
  for (const std::string& failure : result.failures()) out += "FAILED: " + failure + "\n";
  out += fmt::format("verified: {}   digest {}   outputs {}\n", result.verified(), result.digest(),
                     result.output_digest());
  const moe::Host& host = result.host();
  out += fmt::format(
      "host: {} process{}, {}, {:.2f} s, {:.2f} M events, {:.2f} M events/s, {:.0f} MiB\n",
      host.processes(), host.processes() == 1 ? "" : "es", host.transport(), host.wall_seconds(),
      host.events() / 1e6, host.events_per_second() / 1e6, host.peak_rss_mib());
  return out;
}

}  // namespace orrery::cli
