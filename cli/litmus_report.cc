#include "cli/litmus_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace orrery::cli {

namespace {

using litmus::OutcomeCount;
using litmus::Tally;
using Json = nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;

std::string cell(const Tally& tally, std::size_t outcome) {
  if (!tally.skipped.empty()) return "";
  const OutcomeCount& count = tally.outcomes[outcome];
  const bool allowed = tally.verdict.allowed[outcome];
  if (count.total() == 0) return allowed ? "not seen" : "never";
  return fmt::format("{}{}+{}", allowed ? "" : "FORBIDDEN ", count.plain, count.adversary);
}

// "why" lines: fabrics with the same reason share one.
std::string reasons(const LitmusReport& report, std::size_t program) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const LitmusFabric& fabric : report.fabrics) {
    const Tally& tally = fabric.tallies[program];
    const std::string reason =
        tally.skipped.empty() ? tally.verdict.because : "not run: " + tally.skipped;
    auto known = std::find_if(lines.begin(), lines.end(),
                              [&reason](const auto& line) { return line.first == reason; });
    if (known == lines.end()) known = lines.insert(lines.end(), {reason, {}});
    known->second.push_back(fabric.name);
  }
  std::string out;
  for (const auto& [reason, names] : lines) {
    out += lines.size() == 1 ? fmt::format("  {}\n", reason)
                             : fmt::format("  {}: {}\n", fmt::join(names, ", "), reason);
  }
  return out;
}

std::string program_table(const LitmusReport& report, std::size_t program, std::size_t wide) {
  const litmus::Program& what = *report.fabrics[0].tallies[program].program;
  std::string out = fmt::format("\n{}: {}\n", what.name, what.question);
  for (std::size_t outcome = 0; outcome < what.outcomes.size(); ++outcome) {
    std::string line = fmt::format("{:{}}{:{}}", "", kIndent, what.outcomes[outcome], wide);
    for (const LitmusFabric& fabric : report.fabrics) {
      const std::string text = cell(fabric.tallies[program], outcome);
      line += fmt::format("  {:>{}}", text, std::max<std::size_t>(fabric.name.size(), 8));
    }
    out += line + "\n";
  }
  return out + reasons(report, program);
}

}  // namespace

std::string to_table(const LitmusReport& report) {
  const std::vector<Tally>& programs = report.fabrics[0].tallies;
  std::size_t wide = 0;
  for (const Tally& tally : programs) {
    for (const std::string& outcome : tally.program->outcomes) {
      wide = std::max(wide, outcome.size());
    }
  }
  std::string out;
  for (const LitmusFabric& fabric : report.fabrics) {
    out += fmt::format("{}: {}\n", fabric.name, fmt::join(fabric.promises, ", "));
  }
  out += fmt::format(
      "{} runs each, and {} with the adversary. \"12+80\": seen in 12 and 80 of them; "
      "\"never\": forbidden; \"not seen\": allowed.\n\n{:{}}",
      report.runs, report.runs, "", wide + kIndent);
  for (const LitmusFabric& fabric : report.fabrics) out += fmt::format("  {:>8}", fabric.name);
  out += "\n";
  for (std::size_t i = 0; i < programs.size(); ++i) out += program_table(report, i, wide);
  const std::vector<std::string> broken = violations(report);
  out += broken.empty() ? "\nno forbidden outcome was seen\n" : "\n";
  for (const std::string& line : broken) out += line + "\n";
  return out;
}

std::vector<std::string> violations(const LitmusReport& report) {
  std::vector<std::string> lines;
  for (const LitmusFabric& fabric : report.fabrics) {
    for (const Tally& tally : fabric.tallies) {
      for (std::size_t i = 0; i < tally.outcomes.size(); ++i) {
        const OutcomeCount& count = tally.outcomes[i];
        if (count.total() == 0 || tally.verdict.allowed[i]) continue;
        std::string replay = "orrery litmus --topology " + fabric.name;
        for (const std::string& setting : report.settings) replay += " --set " + setting;
        if (!report.all_programs) {
          for (const Tally& each : fabric.tallies) replay += " --test " + each.program->name;
        }
        lines.push_back(fmt::format(
            "FORBIDDEN: {} on {}: \"{}\" with seed {}{}; replay: {} --seed {} --runs 1",
            tally.program->name, fabric.name, tally.program->outcomes[i], count.first.seed,
            count.first.adversary ? " and the adversary" : "", replay, count.first.seed));
      }
    }
  }
  return lines;
}

std::string to_json(const LitmusReport& report) {
  Json json;
  json["seed"] = report.seed;
  json["runs"] = report.runs;
  json["settings"] = report.settings;
  json["fabrics"] = Json::array();
  for (const LitmusFabric& fabric : report.fabrics) {
    Json programs = Json::array();
    for (const Tally& tally : fabric.tallies) {
      Json outcomes = Json::array();
      for (std::size_t i = 0; i < tally.outcomes.size(); ++i) {
        const OutcomeCount& count = tally.outcomes[i];
        Json outcome = {{"name", tally.program->outcomes[i]},
                        {"allowed", static_cast<bool>(tally.verdict.allowed[i])},
                        {"seen", count.plain},
                        {"seen_with_adversary", count.adversary}};
        if (count.total() > 0) {
          outcome["first_seed"] = count.first.seed;
          outcome["first_with_adversary"] = count.first.adversary;
        }
        outcomes.push_back(outcome);
      }
      programs.push_back({{"name", tally.program->name},
                          {"question", tally.program->question},
                          {"because", tally.verdict.because},
                          {"not_run", tally.skipped},
                          {"outcomes", outcomes}});
    }
    json["fabrics"].push_back(
        {{"topology", fabric.name}, {"promises", fabric.promises}, {"programs", programs}});
  }
  json["forbidden"] = violations(report);
  return json.dump(2) + "\n";
}

std::string litmus_list() {
  std::string out;
  for (const litmus::Program& program : litmus::programs()) {
    out += fmt::format("{:<24} {}\n{:<24} tells apart: {}\n", program.name, program.question, "",
                       fmt::join(program.outcomes, "; "));
  }
  return out;
}

}  // namespace orrery::cli
