#include "cli/sweep_runner.h"

#include <fmt/format.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <exception>

#include "cli/point_record.h"
#include "emu/errors.h"
#include "moe/run.h"

namespace orrery::cli {

namespace {

void set_outcome(PointRecord& record, const moe::RunOutcome& outcome) {
  *record.mutable_result() = outcome.result;
  if (!outcome.hang.empty()) {
    record.set_outcome("hang");
    record.set_error(outcome.hang);
  } else if (!outcome.result.verified()) {
    record.set_outcome("not verified");
    record.set_error(outcome.result.failures_size() > 0 ? outcome.result.failures(0) : "");
  } else if (!moe::passed(outcome.result)) {
    record.set_outcome("not verified");
    record.set_error("check: " + outcome.result.check().findings(0).text());
  } else {
    record.set_outcome("ok");
  }
}

PointRecord begin_record(const SweepPlan& plan, std::size_t number) {
  PointRecord record;
  record.set_key(plan.key(number));
  for (const auto& [name, value] : plan.varied(number)) {
    Varied& varied = *record.add_varied();
    varied.set_name(name);
    varied.set_value(value);
  }
  return record;
}

void set_error(PointRecord& record, const std::string& what) {
  record.clear_result();
  record.set_outcome("error");
  record.set_error(what);
}

// The processes of one point, which take points until none is left.
class Worker {
 public:
  Worker(const emu::ProcessGroup& part, const SweepPlan& plan,
         const std::vector<std::size_t>& missing, const SweepMachinery& machinery,
         SweepFolder& folder, SweepProgress& progress)
      : part_(part),
        plan_(plan),
        missing_(missing),
        machinery_(machinery),
        folder_(folder),
        progress_(progress) {}

  void work() const {
    for (;;) {
      std::uint64_t next = part_.rank() == 0 ? folder_.claim() : 0;
      part_.broadcast(std::as_writable_bytes(std::span(&next, 1)), 0);
      if (next >= missing_.size()) return;
      const PointRecord record = run(missing_[next]);
      if (part_.rank() == 0) folder_.append(to_line(record));
      if (progress_.visible()) progress_.show(folder_.added());
    }
  }

 private:
  PointRecord run(std::size_t number) const {
    try {
      std::function<void()> progress;
      if (progress_.visible()) progress = [this] { progress_.show(folder_.added()); };
      return run_point(part_, plan_, number, machinery_, progress);
    } catch (const emu::InvariantError& error) {
      // This ends the sweep; whoever resumes it goes on behind this point.
      PointRecord record = begin_record(plan_, number);
      set_error(record, error.what());
      folder_.append_once(record.key(), to_line(record));
      throw;
    }
  }

  const emu::ProcessGroup& part_;
  const SweepPlan& plan_;
  const std::vector<std::size_t>& missing_;
  const SweepMachinery& machinery_;
  SweepFolder& folder_;
  SweepProgress& progress_;
};

}  // namespace

void check_machinery(const SweepMachinery& machinery, const emu::ProcessGroup& processes) {
  const int per_point = machinery.processes_per_point;
  if (per_point > processes.size()) {
    throw emu::ConfigError(
        "--processes-per-point", "", std::to_string(per_point),
        fmt::format("at most the {} processes that there are (mpirun -n)", processes.size()));
  }
  const std::string& transport = machinery.transport;
  if (per_point == 1 && machinery.threads > 1 && transport != "auto" && transport != "local") {
    throw emu::ConfigError("--transport", "", transport,
                           "auto or local, where points run side by side (--threads)");
  }
}

PointRecord run_point(const emu::ProcessGroup& part, const SweepPlan& plan, std::size_t number,
                      const SweepMachinery& machinery, const std::function<void()>& progress) {
  PointRecord record = begin_record(plan, number);
  try {
    RunOptions options = plan.options(number);
    options.transport = machinery.transport;
    options.threads = machinery.point_threads;
    moe::RunConfig config = options.to_config(part);
    if (progress) config.progress = [&progress](const std::string&) { progress(); };
    set_outcome(record, moe::run(part, config));
  } catch (const emu::ConfigError& error) {
    set_error(record, error.what());
  } catch (const emu::TransportError&) {
    throw;
  } catch (const std::exception& error) {
    if (part.size() > 1) throw;
    set_error(record, error.what());
  }
  return record;
}

void run_points(const emu::ProcessGroup& processes, const SweepPlan& plan,
                const std::vector<std::size_t>& missing, const SweepMachinery& machinery,
                SweepFolder& folder, SweepProgress& progress) {
  const int per_point = machinery.processes_per_point;
  const emu::ProcessGroup part(processes, processes.rank() / per_point);
  // Processes that make no whole part have nothing to do.
  if (part.size() == per_point) {
    const Worker worker(part, plan, missing, machinery, folder, progress);
    if (per_point > 1 || machinery.threads == 1) {
      worker.work();
    } else {
      tbb::task_arena arena(machinery.threads);
      arena.execute([&] {
        tbb::task_group group;
        for (int i = 0; i < machinery.threads; ++i) group.run([&] { worker.work(); });
        group.wait();
      });
    }
  }
  processes.patient_barrier([&] {
    if (progress.visible()) progress.show(folder.added());
  });
}

}  // namespace orrery::cli
