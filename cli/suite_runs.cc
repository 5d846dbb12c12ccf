#include "cli/suite_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "emu/errors.h"
#include "moe/run.h"
#include "moe/suite.h"

namespace orrery::cli {

namespace {

using moe::Row;

constexpr const char* kModel = "model";

double latency_us(const moe::Result& result, const Row& row) {
  if (row.operation() == kModel && result.has_model()) {
    const moe::ModelTime& model = result.model();
    return model.has_ttft_us() ? model.ttft_us() : model.tpot_us();
  }
  for (const moe::Operation& operation : result.operations()) {
    if (operation.name() != row.operation()) continue;
    const moe::Latency& latency = operation.latency_us();
    switch (row.statistic()) {
      case Row::MAX:
        return latency.max();
      case Row::MEAN:
        return latency.mean();
      case Row::P50:
        return latency.p50();
      case Row::P99:
        return latency.p99();
      case Row::MIN:
        return latency.min();
    }
  }
  throw emu::ConfigError(row.id(), "operation", row.operation(),
                         "an operation of algorithm " + row.algorithm());
}

// The numbers of tokens of a row as --tokens takes them; empty text: the workload's.
std::vector<std::string> tokens_of(const Row& row) {
  std::vector<std::string> texts;
  for (const std::uint32_t tokens : row.tokens()) texts.push_back(std::to_string(tokens));
  return texts.empty() ? std::vector<std::string>{""} : texts;
}

}  // namespace

RunOptions SuiteRuns::options_of(const Row& row, const std::string& tokens,
                                 const std::vector<std::string>& settings) const {
  RunOptions options;
  options.topology = row.topology();
  options.workload = row.workload();
  options.algorithm = row.algorithm();
  options.devices = std::to_string(row.devices());
  options.settings.assign(row.settings().begin(), row.settings().end());
  options.settings.insert(options.settings.end(), settings.begin(), settings.end());
  options.iterations = std::to_string(row.iterations());
  options.align = row.align() && !row.align_iterations();
  options.align_iterations = row.align_iterations();
  if (!tokens.empty()) options.tokens = tokens;
  options.placement = row.placement();
  if (row.ends_run() || row.operation() == kModel) options.operation = row.operation();
  options.payload = row.payload();
  options.transport = transport_;
  return options;
}

// What is wrong with a row is wrong with the suite's file.
moe::RunConfig SuiteRuns::config_of(const Row& row, const std::string& tokens,
                                    const std::vector<std::string>& settings) const {
  try {
    return options_of(row, tokens, settings).to_config(processes_);
  } catch (const emu::ConfigError& error) {
    throw emu::ConfigError(path_ + ": row " + row.id() + ": " + error.what());
  }
}

void SuiteRuns::check(const Row& row, const std::vector<std::string>& settings) const {
  for (const Row& each : moe::cases_of(row)) {
    for (const std::string& tokens : tokens_of(row)) {
      config_of(each, tokens, settings);
      for (const Row& baseline : each.baseline()) config_of(baseline, tokens, settings);
    }
  }
}

const SuiteRuns::Ran& SuiteRuns::run(const Row& row, const std::string& tokens,
                                     const std::vector<std::string>& settings) {
  const RunOptions options = options_of(row, tokens, settings);
  std::string key;
  for (const std::string& part :
       {options.topology, options.workload, options.algorithm, *options.devices, options.iterations,
        std::string(options.align ? "aligned" : ""),
        std::string(options.align_iterations ? "iterations aligned" : ""), tokens,
        options.placement, options.payload, options.operation})
    key += part + '\n';
  for (const std::string& setting : options.settings) key += setting + '\n';
  const auto [entry, fresh] = ran_.try_emplace(key);
  Ran& ran = entry->second;
  if (!fresh) return ran;
  try {
    moe::RunOutcome outcome = moe::run(processes_, config_of(row, tokens, settings));
    if (!outcome.hang.empty()) {
      ran.code = kHang;
      ran.failed = outcome.hang;
    } else if (!outcome.result.verified()) {
      ran.code = kFailed;
      ran.failed = outcome.result.failures(0);
    }
    ran.result = std::move(outcome.result);
  } catch (...) {
    ran_.erase(entry);
    throw;
  }
  return ran;
}

Prediction SuiteRuns::latency(const Row& row, const std::string& tokens,
                              const std::vector<std::string>& settings) {
  const Ran& ran = run(row, tokens, settings);
  Prediction prediction;
  prediction.code = ran.code;
  prediction.failed = ran.failed;
  if (ran.code == kOk) prediction.value = latency_us(ran.result, row);
  return prediction;
}

Prediction SuiteRuns::fastest_baseline(const Row& row, const std::string& tokens,
                                       const std::vector<std::string>& settings) {
  Prediction fastest;
  for (const Row& baseline : row.baseline()) {
    Prediction each = latency(baseline, tokens, settings);
    if (each.code != kOk) return each;
    each.picked = baseline.algorithm();
    if (fastest.picked.empty() || each.value < fastest.value) fastest = each;
  }
  return fastest;
}

Prediction SuiteRuns::at(const Row& row, const std::string& tokens,
                         const std::vector<std::string>& settings) {
  Prediction prediction = latency(row, tokens, settings);
  if (row.metric() == Row::LATENCY || prediction.code != kOk) return prediction;
  const Prediction baseline = fastest_baseline(row, tokens, settings);
  if (baseline.code != kOk) return baseline;
  if (row.baseline_size() > 1) prediction.picked = "against " + baseline.picked;
  const double ratio = prediction.value / baseline.value;
  switch (row.metric()) {
    case Row::REDUCTION_PERCENT:
      prediction.value = 100 * (1 - ratio);
      break;
    case Row::SPEEDUP:
      prediction.value = 1 / ratio;
      break;
    default:
      prediction.value = ratio;
  }
  return prediction;
}

Prediction SuiteRuns::predict(const Row& row, const std::vector<std::string>& settings) {
  Prediction picked;
  bool first = true;
  for (const Row& each : moe::cases_of(row)) {
    for (const std::string& tokens : tokens_of(row)) {
      Prediction prediction = at(each, tokens, settings);
      if (prediction.code != kOk) return prediction;
      std::vector<std::string> where;
      if (row.cases_size() > 1)
        where.push_back(fmt::format("{} on {} devices", each.workload(), each.devices()));
      if (row.tokens_size() > 1) where.push_back(tokens + (tokens == "1" ? " token" : " tokens"));
      if (!prediction.picked.empty()) where.push_back(prediction.picked);
      prediction.picked = fmt::format("{}", fmt::join(where, ", "));
      const bool better = first || (row.pick() == Row::SMALLEST ? prediction.value < picked.value
                                                                : prediction.value > picked.value);
      if (better) picked = prediction;
      first = false;
    }
  }
  return picked;
}

}  // namespace orrery::cli
