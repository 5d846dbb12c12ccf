#include "moe/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "emu/errors.h"
#include "moe/arrivals.h"
#include "moe/workload.h"

namespace orrery::moe {

namespace {

constexpr double kGiB = 1 << 30;
// User addresses of a 64-bit process, less room for everything else.
constexpr double kAddressSpace = 0x7000'0000'0000;

// Bytes that this host can still give; unlimited if it does not say.
double available_memory() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  while (in >> word) {
    if (word == "MemAvailable:") {
      double kib = 0;
      in >> kib;
      return kib * 1024;
    }
  }
  return std::numeric_limits<double>::infinity();
}

// True on all processes if `needed` bytes on this host are more than any host has left.
bool too_much(const emu::ProcessGroup& processes, double needed) {
  return processes.max(needed > available_memory() ? 1 : 0) != 0;
}

[[noreturn]] void refuse(const RunConfig& config, const std::string& field,
                         const std::string& value, double needed) {
  throw emu::ConfigError(
      config.workload_file, field,
      fmt::format("{}, which need {:.1f} GiB of this host", value, needed / kGiB),
      fmt::format("what fits the {:.1f} GiB that are free (fewer tokens, devices or iterations)",
                  available_memory() / kGiB));
}

}  // namespace

void check_tables_fit(const emu::ProcessGroup& processes, const RunConfig& config,
                      const AlgorithmEntry& entry) {
  double tokens = 0;
  for (const std::uint32_t each :
       token_counts(config.workload, config.devices, config.workload_file)) {
    tokens += each;
  }
  constexpr double kEntryBytes = sizeof(std::int32_t) + sizeof(float) + sizeof(RowTag);
  const double tables =
      tokens * config.workload.top_k() * kEntryBytes * config.iterations * processes.local_size();
  const double rows =
      entry.moves_rows && !config.control
          ? tokens * 2 * config.workload.hidden() * processes.local_size() / processes.size()
          : 0;
  if (too_much(processes, tables + rows)) {
    refuse(config, "tokens",
           fmt::format("{:.0f} tokens and {} iterations", tokens, config.iterations),
           tables + rows);
  }
}

void check_devices_fit(const emu::ProcessGroup& processes, const RunConfig& config,
                       const Algorithm& algorithm) {
  double touched = 0;
  for (std::uint32_t device = 0; device < config.devices; ++device) {
    touched += static_cast<double>(algorithm.touched_bytes(device));
  }
  // Of rows that are not carried little is left.
  double share = 0;
  for (const fabric::Region& region : algorithm.layout().regions()) {
    if (region.row_bytes == 0) continue;
    const auto held = emu::BufferPool::capacity_of(
        emu::BufferPool::class_of(region.carried.before(region.row_bytes)));
    share = std::max(share, static_cast<double>(held) / static_cast<double>(region.row_bytes));
  }
  if (config.control) touched *= std::min(1.0, share);
  // The processes of one host share its memory.
  const double needed = touched * processes.local_size() / processes.size();
  if (too_much(processes, needed)) {
    refuse(config, "tokens", fmt::format("buffers of {} devices", config.devices), needed);
  }
  const double mine = (config.devices + processes.size() - 1) / processes.size();
  double reserved = 0;
  for (const fabric::Region& region : algorithm.layout().regions()) {
    if (region.bytes > std::uint64_t{1} << fabric::Region::kRegionBits) {
      throw emu::ConfigError(config.workload_file, "tokens",
                             fmt::format("a buffer of {:.0f} GiB per device", region.bytes / kGiB),
                             "at most 1024 GiB (fewer tokens or devices)");
    }
    reserved += static_cast<double>(region.row_bytes == 0 ? region.bytes
                                                          : region.bytes / region.row_bytes * 8);
  }
  if (mine * reserved > kAddressSpace) {
    throw emu::ConfigError(
        config.workload_file, "tokens",
        fmt::format("buffers of {:.0f} GiB per device", reserved / kGiB),
        fmt::format("at most {:.0f} GiB for {:.0f} devices in a process (fewer tokens or "
                    "devices, or more processes)",
                    kAddressSpace / mine / kGiB, mine));
  }
}

}  // namespace orrery::moe
