// One run: an algorithm on a machine under a workload, verified and measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices/alignment.h"
#include "devices/causal_history.h"
#include "devices/critical_path.h"
#include "devices/lost_put.h"
#include "devices/machine.h"
#include "emu/process_group.h"
#include "moe/result.pb.h"
#include "moe/run_trace.h"
#include "moe/stages.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

struct RunConfig {
  devices::Machine machine;
  std::string machine_file;  // for messages
  Workload workload;
  std::string workload_file;
  std::string algorithm;
  std::uint32_t devices = 0;
  std::string placement = "packed";
  std::uint32_t iterations = 1;
  std::uint64_t seed = 1;
  std::string operation;  // of Stages: the last of each iteration, or layer; empty: all
  devices::Alignment alignment = devices::Alignment::kNone;
  bool adversary = false;
  bool check = false;                                    // with the happens-before checker
  std::uint64_t most_accesses = std::uint64_t{1} << 26;  // of 40 bytes, that it keeps
  double max_virtual_ms = 0;                             // 0: no limit
  bool control = false;  // --payload control: flags, counts and tags are carried, rows are not
  int threads = 1;
  std::string transport = "auto";
  devices::Overrides
      settings;          // all of --set; those of the machine and workload are applied already
  bool explain = false;  // keep the causes of what happened,
  std::uint64_t most_causes = std::uint64_t{1} << 23;  // of 32 bytes; more than that: none
  devices::WhatIf what_if;                             // for runs without a cost
  devices::LostPut lost_put;                           // for runs that must fail
  std::optional<TraceRequest> trace;
  std::function<void(const std::string&)> progress;  // a line now and then; may be empty
};

/// What came of it. `hang` is the report, if there was one; the result is then incomplete.
struct RunOutcome {
  Result result;
  std::string hang;
  /// Of each operation of the result, which stages it is.
  std::vector<Span> spans;
  /// Of each operation of the result; their steps on process 0 alone.
  std::vector<devices::CriticalPath> paths;
  /// What `trace` asked for; on process 0 alone, also after a hang.
  std::optional<RunTrace> trace;
  /// RunConfig::lost_put was issued, by a device of this process.
  bool put_lost = false;
  /// Largest latency over all devices, by iteration, then operation.
  std::vector<std::vector<emu::Time>> slowest;
  /// With RunConfig::explain: the causes, on process 0 alone.
  devices::CausalHistory history;
};

/// True if the result is verified and the checker, if it ran, found nothing.
bool passed(const Result& result);

/// Collective over `processes`; every process gets the same result (R4), the host section aside.
/// Throws ConfigError before any work when sizes do not fit (each process the same),
/// TransportError.
RunOutcome run(const emu::ProcessGroup& processes, const RunConfig& config);

}  // namespace orrery::moe
