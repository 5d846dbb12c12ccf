// orrery run: one algorithm on one machine, verified and measured.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/explanation_text.h"
#include "cli/output_file.h"
#include "cli/result_json.h"
#include "cli/result_table.h"
#include "cli/run_options.h"
#include "cli/timeline_text.h"
#include "cli/trace_json.h"
#include "cli/trace_options.h"
#include "emu/errors.h"
#include "moe/explanation.h"
#include "moe/run.h"

namespace orrery::cli {

namespace {

struct RunCommand {
  RunOptions options;
  TraceOptions trace_options;
  std::string json_file;
  bool explain = false;
  bool quiet = false;

  int operator()(const emu::ProcessGroup& processes) const {
    moe::RunConfig config = options.to_config(processes);
    config.trace = trace_options.to_request(config.devices);
    if (trace_options.file && *trace_options.file == json_file) {
      throw emu::ConfigError("--trace", "", json_file, "another file than --json");
    }
    const OutputFile json(processes, "--json", json_file);
    const OutputFile trace(processes, "--trace", trace_options.file.value_or(""));
    const bool root = processes.rank() == 0;
    const bool terminal = root && !quiet && isatty(STDERR_FILENO) != 0;
    if (terminal) {
      config.progress = [](const std::string& line) { fmt::print(stderr, "\r{}\033[K", line); };
    }
    config.explain = explain;
    moe::RunOutcome outcome = moe::run(processes, config);
    bool explained = true;
    if (explain && outcome.hang.empty()) explained = moe::explain(processes, config, outcome);
    if (terminal) fmt::print(stderr, "\r\033[K");
    if (root && outcome.trace) {
      if (trace.wanted()) {
        trace.write([&outcome](std::ostream& out) { write_trace_json(outcome, out); });
      }
      const std::string missing = left_out(*outcome.trace);
      if (!missing.empty()) {
        fmt::print(stderr, "orrery: {}: {}\n", trace_options.file.value_or("--timeline"), missing);
      }
    }
    if (!outcome.hang.empty()) {
      if (root) fmt::print(stderr, "{}", outcome.hang);
      return kHang;
    }
    if (root) {
      if (!quiet) fmt::print("{}", to_table(outcome.result));
      if (trace_options.timeline) {
        fmt::print("{}", timeline_text(outcome, style_of_stdout(processes.uses_mpi())));
      }
      if (!quiet && explain) {
        const fabric::Topology topology =
            fabric::build_topology(config.machine.fabric(), config.machine_file);
        fmt::print("{}", to_explanation(outcome, topology, config));
      }
      json.write(to_json(outcome.result));
      if (quiet && !outcome.result.check().findings().empty()) {
        fmt::print(stderr, "{}", check_text(outcome.result.check()));
      }
      if (quiet && !outcome.result.verified()) {
        for (const std::string& failure : outcome.result.failures())
          fmt::print(stderr, "FAILED: {}\n", failure);
      }
    }
    return moe::passed(outcome.result) && explained ? kOk : kFailed;
  }
};

}  // namespace

Command add_run(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("run", "run an algorithm on a machine, verify and measure it");
  auto run = std::make_shared<RunCommand>();
  run->options.add_to(*command);
  command->add_option("--json", run->json_file, "write the result there");
  run->trace_options.add_to(*command);
  command->add_flag("--explain", run->explain,
                    "tell the critical path hop by hop, and what would shorten it");
  command->add_flag("--quiet", run->quiet, "no table, no progress");
  return [run](const emu::ProcessGroup& processes) { return (*run)(processes); };
}

}  // namespace orrery::cli
