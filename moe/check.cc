#include "moe/check.h"

#include <fmt/format.h>

#include <span>
#include <string>

#include "devices/order_check.h"
#include "emu/errors.h"
#include "fabric/memory.h"
#include "moe/run.h"

namespace orrery::moe {

namespace {

constexpr std::size_t kListed = 32;

void set_side(const devices::FindingSide& side, AccessSide& out) {
  out.set_device(side.device);
  out.set_core(side.core);
  out.set_verb(devices::to_string(side.verb));
  out.set_operation(side.operation);
  out.set_phase(side.phase);
  out.set_iteration(side.iteration);
  out.set_time_us(emu::to_us(side.time));
}

void set_finding(const devices::Finding& finding, OrderFinding& out) {
  constexpr int kBits = fabric::Region::kRegionBits;
  out.set_kind(devices::to_string(finding.kind));
  set_side(finding.second, *out.mutable_second());
  if (finding.has_first) set_side(finding.first, *out.mutable_first());
  out.set_device(finding.device);
  out.set_region(static_cast<std::uint32_t>(finding.address >> kBits));
  out.set_offset(static_cast<double>(finding.address & ((std::uint64_t{1} << kBits) - 1)));
  out.set_bytes(static_cast<double>(finding.bytes));
  out.set_count(static_cast<double>(finding.count));
  out.set_text(devices::to_text(finding));
}

}  // namespace

Check run_check(devices::Cluster& cluster, std::uint64_t most_accesses) {
  const devices::OrderCheck found = devices::check_order(cluster);
  Check check;
  check.set_accesses(static_cast<double>(found.accesses));
  for (const devices::Finding& finding : found.findings) {
    if (static_cast<std::size_t>(check.findings_size()) == kListed) break;
    set_finding(finding, *check.add_findings());
  }
  check.set_kinds_left_out(static_cast<double>(found.findings.size()) - check.findings_size());

  // Process 0 has it.
  const emu::ProcessGroup& processes = cluster.processes();
  std::string text = check.SerializeAsString();
  const bool complete = processes.max(processes.rank() == 0 && !found.complete ? 1 : 0) == 0;
  if (!complete) {
    throw emu::ConfigError("--check", "",
                           fmt::format("a run of more than {} accesses", most_accesses),
                           "fewer devices, tokens or iterations");
  }
  text.resize(static_cast<std::size_t>(
      processes.max(processes.rank() == 0 ? static_cast<std::int64_t>(text.size()) : 0)));
  processes.broadcast(std::as_writable_bytes(std::span<char>(text.data(), text.size())), 0);
  if (!check.ParseFromString(text)) throw emu::InvariantError("a check that does not parse");
  return check;
}

bool passed(const Result& result) { return result.verified() && result.check().findings().empty(); }

}  // namespace orrery::moe
