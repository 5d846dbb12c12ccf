// orrery sweep: many runs that differ in what is varied, each recorded as it finishes.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/plugins.h"
#include "cli/sweep_folder.h"
#include "cli/sweep_plan.h"
#include "cli/sweep_progress.h"
#include "cli/sweep_results.h"
#include "cli/sweep_runner.h"
#include "cli/sweep_table.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace {

// Says, on Ctrl-C and SIGTERM, that nothing is lost. What a signal handler may call is little.
class InterruptNote {
 public:
  explicit InterruptNote(bool speaks) : speaks_(speaks) {
    if (!speaks_) return;
    std::signal(SIGINT, say);
    std::signal(SIGTERM, say);
  }
  ~InterruptNote() {
    if (!speaks_) return;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  }
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

 private:
  static void say(int signal) {
    constexpr char kText[] =
        "\norrery: stopped; what was finished is kept, the same command with --resume goes on\n";
    if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(kFailed);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  const bool speaks_;
};

// The gravest of what happened: a wrong result before a hang before a run that was refused.
int exit_code(const SweepResults& results) {
  const auto any = [&](const char* outcome) {
    return std::any_of(results.points.begin(), results.points.end(),
                       [&](const PointResult& point) { return point.outcome == outcome; });
  };
  if (any("not verified")) return kFailed;
  if (any("hang")) return kHang;
  return any("error") ? kUsage : kOk;
}

struct SweepCommand {
  CLI::App* command = nullptr;
  RunOptions options;
  std::vector<std::string> vary;
  bool zip = false;
  std::string file;
  std::string out;
  Resumption resumption;
  std::string processes_per_point = "1";
  std::vector<std::string> metrics;
  std::string csv_file;
  bool quiet = false;

  int operator()(const emu::ProcessGroup& processes) const {
    load_plugins(processes, options.plugins);
    const SweepRequest request = full_request();
    const SweepPlan plan(request);
    check_metrics(request.metrics);
    SweepMachinery machinery;
    machinery.processes_per_point =
        static_cast<int>(parse_number("--processes-per-point", processes_per_point, 1, 1 << 20));
    choose_threads(plan, processes, machinery);
    machinery.transport = options.transport;
    check_machinery(machinery, processes);
    check_one_point(plan, machinery, processes);
    const OutputFile csv(processes, "--csv", csv_file);
    SweepFolder::Inputs inputs = plan.inputs();
    for (const std::string& plugin : options.plugins) inputs[plugin] = file_digest(plugin);
    SweepFolder folder(processes, out, request, inputs,
                       {resumption.resume || resumption.retry_errors, resumption.retry_errors});

    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!folder.finished().contains(plan.key(i))) missing.push_back(i);
    }
    const bool root = processes.rank() == 0;
    {
      const InterruptNote note(root);
      SweepProgress progress(root && !quiet && isatty(STDERR_FILENO) != 0,
                             plan.size() - missing.size(), plan.size());
      run_all(processes, plan, missing, machinery, folder, progress);
    }
    std::int64_t code = kOk;
    if (root) code = report(plan, read_results(plan, folder, request.metrics), csv);
    return static_cast<int>(processes.max(code));
  }

 private:
  SweepRequest full_request() const {
    SweepRequest typed;
    for (const std::string& flag : varied_flags()) {
      const CLI::Option* option = command->get_option_no_throw("--" + flag);
      if (option != nullptr && option->count() > 0)
        typed.fixed.emplace_back(flag, option->results().back());
    }
    for (const std::string& setting : options.settings) typed.add_setting("--set", setting);
    for (const std::string& each : vary) typed.add_axis("--vary", each);
    typed.zip = zip;
    typed.metrics = metrics;
    typed.check("--vary");
    return file.empty() ? typed : merge(load_request(file), typed);
  }

  // Small points run side by side on all cores; a large one gets them, and the host's memory, for
  // itself.
  void choose_threads(const SweepPlan& plan, const emu::ProcessGroup& processes,
                      SweepMachinery& machinery) const {
    if (options.threads != "auto") {
      machinery.threads = static_cast<int>(parse_number("--threads", options.threads, 1, 1024));
      if (machinery.processes_per_point > 1)
        machinery.point_threads = std::to_string(machinery.threads);
      return;
    }
    if (processes.size() > 1) return;
    bool large = false;
    for (std::size_t i = 0; i < plan.size(); ++i) large = large || is_large(plan.options(i));
    if (large) {
      machinery.point_threads = "auto";
    } else if (machinery.transport == "auto" || machinery.transport == "local") {
      machinery.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }
  }

  // As far as it says how many devices it has; all those of a topology may be many.
  static bool is_large(const RunOptions& point) {
    try {
      return !point.devices ||
             parse_number("--devices", *point.devices, 1, 1 << 20) >= kManyDevices;
    } catch (const emu::ConfigError&) {
      return false;  // it will be refused
    }
  }

  // A point that is refused is recorded and does not stop the rest; if all are, it is the sweep
  // that is wrong, and nothing begins.
  static void check_one_point(const SweepPlan& plan, const SweepMachinery& machinery,
                              const emu::ProcessGroup& processes) {
    const emu::ProcessGroup part(processes, processes.rank() / machinery.processes_per_point);
    std::string first;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      RunOptions each = plan.options(i);
      each.transport = machinery.transport;
      try {
        each.to_config(part);
        return;
      } catch (const emu::ConfigError& error) {
        if (first.empty()) first = error.what();
      }
    }
    throw emu::ConfigError(
        plan.size() == 1 ? first : fmt::format("{} (no point of the sweep can run)", first));
  }

  // What only one process meets (a full disk) ends the others too.
  static void run_all(const emu::ProcessGroup& processes, const SweepPlan& plan,
                      const std::vector<std::size_t>& missing, const SweepMachinery& machinery,
                      SweepFolder& folder, SweepProgress& progress) {
    try {
      run_points(processes, plan, missing, machinery, folder, progress);
    } catch (const emu::ConfigError& error) {
      if (processes.size() == 1) throw;
      fmt::print(stderr, "orrery: {}\n", error.what());
      std::fflush(nullptr);
      std::_Exit(kUsage);
    }
  }

  int report(const SweepPlan& plan, const SweepResults& results, const OutputFile& csv) const {
    if (!quiet) {
      fmt::print("{}\n", to_table(plan, results));
      const std::string spread = seed_spread(plan, results);
      if (!spread.empty()) fmt::print("{}\n", spread);
      fmt::print("{}", unchanged_keys(plan, results));
    }
    const int code = exit_code(results);
    if (!quiet || code != kOk) fmt::print(quiet ? stderr : stdout, "{}", summary(plan, results));
    csv.write(to_csv(plan, results));
    return code;
  }
};

}  // namespace

Command add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sweep", "run an algorithm at many points: every flag and path of a run can be varied");
  auto sweep = std::make_shared<SweepCommand>();
  sweep->command = command;
  sweep->options.add_to(*command, false);
  command->get_option("--threads")
      ->description(
          "points side by side in each process; auto: as many as cores, for small points alone");
  command
      ->add_option("--vary", sweep->vary,
                   "key=values; the key: a flag of a run (tokens) or a path as --set takes it; the "
                   "values: 8,16,32, 1:256:*2, 16:64:+16, 1:9, or 0-3;0,2,4,6 where they hold "
                   "commas. Several: their product, the first key slowest")
      ->allow_extra_args(false);
  command->add_flag("--zip", sweep->zip, "take the values of all keys pairwise, not their product");
  command->add_option(
      "--file", sweep->file,
      "a sweep as text protobuf (cli/sweep_file.proto); the command line goes before it");
  command
      ->add_option(
          "--out", sweep->out,
          "folder, shared by all hosts: its points.jsonl gets a line per finished point, at once")
      ->required();
  command->add_flag("--resume", sweep->resumption.resume,
                    "keep what is finished in --out, failed points too, and run what is missing");
  command->add_flag("--retry-errors", sweep->resumption.retry_errors,
                    "as --resume, and run points again whose outcome is \"error\"");
  command->add_option("--processes-per-point", sweep->processes_per_point,
                      "under mpirun: processes that share a point; those left over stay idle");
  command
      ->add_option("--metric", sweep->metrics,
                   "of the table: dispatch.latency_us.max, counters.puts, …; may be repeated "
                   "(default: the largest latency of each operation, and verified)")
      ->allow_extra_args(false);
  command->add_option("--csv", sweep->csv_file, "write the table there");
  command->add_flag("--quiet", sweep->quiet, "no table, no progress");
  command->footer(
      "Exit code: 0 if all points are fine, else the gravest: 1 a result is wrong, 3 a hang, 2 a "
      "point was refused.");
  return [sweep](const emu::ProcessGroup& processes) { return (*sweep)(processes); };
}

}  // namespace orrery::cli
